"""Parts: a program taken apart into nodes, of which each is one loop's work at most.

A zscore is folds and some arithmetic, a lookup a chain of choices, a `reduce` one fold; equal nodes are one.
`rlspec.compiler.fusion` puts them into loops.
"""

from __future__ import annotations

from math import isfinite, nan, pi

from rlspec.compiler.evaluator import ELEMENT, unbound
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.pools import NEUTRAL, Pool, axis_level, check, pool, pool_of
from rlspec.compiler.program import Program, Step
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass, field

Path = tuple[int, ...]  # the pass of each loop from the outermost inwards; the body of `step` is ()

INTEGRAL = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "num", "index", "span")
"""Operations whose results are whole numbers whatever they are given."""
CLOSED = ("add", "sub", "mul", "neg", "abs", "sign", "min2", "max2", "clip", "select", "lift")
"""Operations that make whole numbers of whole numbers."""


@dataclass(slots=True)
class Node:
    """`kind` is const, input, elem, fold, scan, gae, rank or aligned; `op` the operation or folding function.
    `label` is what its variable is called after. Elementwise nodes include `index`, `num`, `span` (members of
    a pool, a whole number) and `lift` (the same value at a finer level)."""

    kind: str
    op: str
    args: tuple[int, ...]
    level: Level
    attrs: dict[str, Any]
    label: str
    pool: Pool | None = None
    whole: bool = False  # its values are whole numbers, so a sum of them loses nothing
    home: Path | None = None  # the body that computes it (and stores it, if it is stored)
    stored: bool = False
    shares: str | None = None  # the output whose array it may use until that is written
    bodies: set[Path] = field(default_factory=set)  # the bodies, at its own level, that compute it


class Parts:
    """Takes a program apart into nodes; equal nodes are one."""

    def __init__(self, program: Program) -> None:
        self.nodes: list[Node] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._counted = {i.name for i in program.inputs if i.type != "real"}
        check(program)
        labels = _labels(program)
        place: list[int] = []
        for at, step in enumerate(program.steps):
            place.append(self._step(step, tuple(place[a] for a in step.args), labels[at]))
        self.outputs = {name: place[at] for name, at in program.outputs.items()}

    def add(
        self,
        kind: str,
        op: str,
        args: tuple[int, ...],
        level: Level,
        label: str = "x",
        pool: Pool | None = None,
        **attrs: Any,
    ) -> int:
        key = (kind, op, args, level, pool, tuple(sorted((k, repr(v)) for k, v in attrs.items())))
        if key not in self._known:
            self._known[key] = len(self.nodes)
            whole = self._whole(kind, op, args, attrs)
            self.nodes.append(Node(kind, op, args, level, attrs, label, pool, whole))
        return self._known[key]

    def _whole(self, kind: str, op: str, args: tuple[int, ...], attrs: dict[str, Any]) -> bool:
        """Whether a node's values are whole numbers. (Beyond 2^53 float64 has no fractions left, but gaps.)"""
        if kind == "const":
            return isfinite(attrs["value"]) and attrs["value"] == int(attrs["value"])
        if kind == "input":
            return op in self._counted
        if kind == "elem":
            terms = args[1:] if op == "select" else args
            return op in INTEGRAL or (op in CLOSED and all(self.nodes[a].whole for a in terms))
        if kind == "fold" and op in ("any", "all", "count"):
            return True
        empty = attrs.get("empty")
        found = kind == "fold" and op in ("sum", "min", "max", "first", "last", "some") and self.nodes[args[0]].whole
        return found and (empty is None or (isfinite(empty) and empty == int(empty)))

    def elem(self, op: str, *args: int, level: Level | None = None, label: str = "x", **attrs: Any) -> int:
        """An elementwise node; one of constants is folded, by the evaluator's own arithmetic."""
        if level is None:
            level = max(self.nodes[a].level for a in args)
        if level is Level.CONST:
            return self.const(ELEMENT[op](*(self.nodes[a].attrs["value"] for a in args)))
        if op == "select" and args[1] == args[2] and self.nodes[args[1]].level is level:
            return args[1]
        return self.add("elem", op, args, level, label, **attrs)

    def const(self, value: float) -> int:
        return self.add("const", "", (), Level.CONST, value=float(value))

    def span(self, pool: Pool) -> int:
        label = f"{pool.scope.label}_{pool.member.label}s"
        return self.add("elem", "span", (), max(pool.scope, Level.STEP), label, members=pool)

    def _step(self, step: Step, args: tuple[int, ...], label: str) -> int:
        level, attrs = BY_LABEL[step.level], step.attrs
        match step.op:
            case "const":
                return self.const(attrs["value"])
            case "input":
                return self.add("input", attrs["name"], (), level, label)
            case "index":
                return self.add("elem", "index", (), level, f"{level.label}_index")
            case "num":
                axis = axis_level(attrs["axis"])
                return self.add("elem", "num", (), level, f"num_{axis.label}", members=pool_of((attrs["axis"],)))
            case "reduce":
                return self._reduce(attrs, args, pool(step), label)
            case "scan":
                return self.add("scan", attrs["fn"], args, level, label, pool(step))
            case "gae":
                return self.add("gae", "gae", args, level, label, pool(step))
            case "normalise":
                return self._normalise(attrs, args[0], pool(step), label)
            case "top":
                source = self._lifted(args[0], pool(step).member)
                return self.add("rank", "top", (source,), pool(step).member, label, pool(step), share=attrs["share"])
            case "lookup":
                return self._lookup(attrs, args[0], level, label)
            case "anneal":
                return self._anneal(attrs, args, level, label)
            case op:
                return self.elem(op, *args, level=level, label=label)

    def _lookup(self, attrs: dict[str, Any], code: int, level: Level, label: str) -> int:
        """A table is a chain of choices: it is small, and a processor can compute all of them."""
        if attrs["values"] is None:
            raise unbound(attrs)
        found = self.const(nan)
        for k in reversed(range(attrs["size"])):
            same = self.elem("eq", code, self.const(k), level=level)
            found = self.elem("select", same, self.const(attrs["values"][k]), found, level=level, label=label)
        return found

    def _anneal(self, attrs: dict[str, Any], args: tuple[int, ...], level: Level, label: str) -> int:
        step, start, end = args
        share = self.elem("min2", self.elem("div", step, self.const(attrs["over"])), self.const(1.0), label="share")
        if attrs["shape"] == "cosine":
            turned = self.elem("cos", self.elem("mul", self.const(pi), share), label="cosine")
            share = self.elem("div", self.elem("sub", self.const(1.0), turned), self.const(2.0), label="share")
        way = self.elem("mul", self.elem("sub", end, start), share)
        return self.elem("add", start, way, level=level, label=label)

    def _lifted(self, x: int, level: Level) -> int:
        """The same value at a finer level."""
        same = self.nodes[x].level is level
        return x if same else self.add("elem", "lift", (x,), level, self.nodes[x].label)

    def _reduce(self, attrs: dict[str, Any], args: tuple[int, ...], pool: Pool, label: str) -> int:
        fn = attrs["fn"]
        empty = attrs.get("empty")
        empty = NEUTRAL[fn] if empty is None else float(empty)
        known_empty = None if NEUTRAL.get(fn) == empty else empty
        return self.fold(fn, args[0], pool, label, where=args[1:], empty=known_empty)

    def fold(
        self,
        fn: str,
        x: int,
        pool: Pool,
        label: str,
        where: tuple[int, ...] = (),
        empty: float | None = None,
        **attrs: Any,
    ) -> int:
        """A fold of x over a pool. Arguments: x, then the condition if there is one, else the number of
        members if the result needs it. `empty` None: nothing is to be done about an empty pool. Beyond the language's
        reducers there are `std`, a root of a sum of squares, and `some`, a member, whichever costs least."""
        counted = fn in ("mean", "std") or (empty is not None and fn not in ("first", "last"))
        rest = where or ((self.span(pool),) if counted else ())
        return self.add(
            "fold",
            fn,
            (x, *rest),
            pool.scope,
            label,
            pool,
            where=bool(where),
            counted=counted,
            empty=empty,
            **attrs,
        )

    def _normalise(self, attrs: dict[str, Any], x: int, pool: Pool, label: str) -> int:
        fn, zero_variance = attrs["fn"], float(attrs["zero_variance"])
        raw = attrs["singleton"] == "raw"
        if fn == "rank" or attrs.get("align"):
            source = self._lifted(x, pool.member)
            kind = "aligned" if attrs.get("align") else "rank"
            rule = {k: attrs[k] for k in ("fn", "ddof", "epsilon", "align", "missing") if k in attrs}
            return self.add(kind, fn, (source,), pool.member, label, pool, raw=raw, zero=zero_variance, **rule)
        stem = self.nodes[x].label
        if fn == "zscore" and pool.scope <= Level.STEP:
            result, scale = self._whole_step(x, pool, stem, int(attrs["ddof"]))
        else:
            mean = self.fold("mean", x, pool, f"{stem}_mean")
            result = self.elem("sub", x, mean, level=pool.member, label=f"{stem}_deviation")
            if fn == "zscore":
                squared = self.elem("mul", result, result, level=pool.member, label=f"{stem}_square")
                scale = self.fold("std", squared, pool, f"{stem}_std", ddof=int(attrs["ddof"]))
        if fn == "zscore":
            if attrs["epsilon"]:
                scale = self.elem("add", scale, self.const(attrs["epsilon"]), label=f"{stem}_scale")
            safe = "quotient" if attrs["epsilon"] else "div"
            result = self.elem(safe, result, scale, level=pool.member, label=label)
        flat = self.const(zero_variance)
        if raw or zero_variance:
            alone = self.elem("eq", self.span(pool), self.const(1.0), label=f"{stem}_alone")
            flat = self.elem("select", alone, x if raw else self.const(0.0), flat, label=f"{stem}_flat")
        dead = self._dead(x, pool, stem, again=fn == "zscore")
        return self.elem("select", dead, flat, result, level=pool.member, label=label)

    def _dead(self, x: int, pool: Pool, stem: str, again: bool) -> int:
        """Whether all members of a pool are equal, exactly; one that is not a number equals nothing. Where the pool is
        passed over `again` in any case, that pass counts the members that differ from a certain one, which is several
        times as fast as to ask for the smallest and the largest."""
        if not again:
            low, high = self.fold("min", x, pool, f"{stem}_low"), self.fold("max", x, pool, f"{stem}_high")
            return self.elem("eq", low, high, label=f"{stem}_dead")
        some = self.fold("some", x, pool, f"{stem}_some")
        differs = self.elem("ne", x, some, level=pool.member, label=f"{stem}_differs")
        others = self.fold("count", differs, pool, f"{stem}_others")
        return self.elem("eq", others, self.const(0.0), label=f"{stem}_dead")

    def _whole_step(self, x: int, pool: Pool, stem: str, ddof: int) -> tuple[int, int]:
        """Deviation and standard deviation over a whole step, whose many members are summed fastest in any order; what
        that costs the mean, the sum of the deviations tells (the corrected two-pass algorithm; Chan, Golub, LeVeque,
        "Algorithms for computing the sample variance", 1983)."""
        members = self.elem("max2", self.span(pool), self.const(1.0), label="members")
        free = self.elem("max2", self.elem("sub", self.span(pool), self.const(ddof)), self.const(1.0), label="free")
        total = self.fold("sum", x, pool, f"{stem}_total", rough=True)
        rough = self.elem("quotient", total, members, label=f"{stem}_rough_mean")
        near = self.elem("sub", x, rough, level=pool.member, label=f"{stem}_near")
        rest = self.fold("sum", near, pool, f"{stem}_rest", rough=True)
        squared = self.elem("mul", near, near, level=pool.member, label=f"{stem}_square")
        squares = self.fold("sum", squared, pool, f"{stem}_squares", rough=True)
        missed = self.elem("quotient", rest, members, label=f"{stem}_missed")
        mean = self.elem("add", rough, missed, label=f"{stem}_mean")
        spread = self.elem("sub", squares, self.elem("mul", rest, missed), label=f"{stem}_spread")
        variance = self.elem("quotient", self.elem("max2", spread, self.const(0.0)), free, label=f"{stem}_variance")
        deviation = self.elem("sub", x, mean, level=pool.member, label=f"{stem}_deviation")
        return deviation, self.elem("sqrt", variance, label=f"{stem}_std")


def _labels(program: Program) -> list[str]:
    """What each step's variable is called after: its output, its signal, or what it does to its first
    signal."""
    named = {at: name for name, at in reversed(program.outputs.items())}
    leads: list[str] = []
    labels: list[str] = []
    for at, step in enumerate(program.steps):
        lead = next((leads[a] for a in step.args if leads[a]), "")
        if step.op == "input":
            lead = step.attrs["name"]
        if at in named:
            lead = named[at]
        leads.append(lead)
        verb = step.attrs.get("fn", step.op)
        labels.append(lead if at in named or step.op == "input" else f"{lead}_{verb}" if lead else verb)
    return labels
