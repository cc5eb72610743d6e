"""Fusion: a program as few nested loops, with nothing stored that can stay a scalar.

A program is first taken apart into *nodes*: elementwise values, and *folds* that gather a value over a pool (a zscore
is four folds and some arithmetic). Then every node gets a *time*, the earliest place in the nest of loops where all
that it needs is known:

    time = (pass over the groups, pass over a group's trajectories, ..., slot within the member itself)

Even passes run forwards and odd ones backwards; slot k of a member comes before pass k over the members below it.
Times compare like words in a dictionary: a node's time is the latest of its arguments', the result of a fold is known
in the slot before the next even pass. Nodes whose times share all passes share their loops; that is all the fusion
there is.

A value is stored in an array only when a later pass reads it and it is costly to compute again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite, nan, pi
from typing import Any

from rlspec.compiler.evaluator import ELEMENT, unbound
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.pools import NEUTRAL, Pool, axis_level, check, pool, pool_of
from rlspec.compiler.program import Program, Step

FORWARD, BACKWARD = 0, 1  # a pass's parity
Path = tuple[int, ...]  # the pass of each loop from the outermost inwards; the body of `step` is ()
Time = tuple[int, ...]

INTEGRAL = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "num", "index", "span")
"""Operations whose results are whole numbers whatever they are given."""
CLOSED = ("add", "sub", "mul", "neg", "abs", "sign", "min2", "max2", "clip", "select", "lift")
"""Operations that make whole numbers of whole numbers."""
COSTLY = 4
COST = {
    "div": 2,
    "pow": 12,
    "exp": 8,
    "log": 8,
    "cos": 8,
    "sqrt": 3,
    "lift": 0,
    "span": 0,
    "num": 0,
    "index": 0,
    "select": 2,
}


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


@dataclass(slots=True)
class Schedule:
    """Nodes in order, the body in which each is computed, and which output names which node."""

    nodes: list[Node]
    outputs: dict[str, int]
    uses: dict[tuple[int, Path], list[Path]]  # (node, body at the node's level) -> the bodies that mention it
    gathers: dict[int, Path]  # fold, scan, gae -> the body of its members
    slots: dict[int, int]  # rank, aligned -> the slot of its scope


def schedule(program: Program) -> Schedule:
    """Plan the loops of a program.

    Raises:
        ValueError: the program is not well formed.
    """
    parts = _Parts(program)
    nodes = parts.nodes
    when, inner, costs = *times(nodes), _costs(nodes)
    plan = Schedule(nodes, parts.outputs, defaultdict(list), {}, {})
    named = set(plan.outputs.values())
    whole = {n.args[0] for n in nodes if n.kind in ("rank", "aligned")}
    wanted: dict[int, set[Path]] = defaultdict(set)

    def demand(args: Iterable[int], body: Path) -> None:
        for a in args:
            own = body[: max(nodes[a].level - Level.STEP, 0)]
            wanted[a].add(own)
            plan.uses[a, own].append(body)

    for at in reversed(range(len(nodes))):
        node, first = nodes[at], when[at][:-1]
        if not wanted[at] and at not in named and at not in whole:
            continue
        if node.kind == "elem":
            bodies = wanted[at] | ({first} if at in named or at in whole else set())
            again = len(bodies) > 1 and costs[at] >= COSTLY and node.level > Level.STEP
            node.stored = at in named or at in whole or again
            node.bodies = {min(bodies)} if node.stored else bodies
            node.home = min(bodies) if node.stored else None
            for body in node.bodies:
                demand(node.args, body)
        elif node.kind in ("fold", "scan", "gae"):
            plan.gathers[at] = inner[at][:-1]
            node.home, node.bodies = first, {first}
            node.stored = at in named or at in whole or any(body != first for body in wanted[at])
            demand(node.args, inner[at][:-1])
        elif node.kind in ("rank", "aligned"):
            assert node.pool is not None
            scope = node.pool.scope - Level.STEP
            node.home, node.bodies, node.stored = first[:scope], {first[:scope]}, True
            plan.slots[at] = when[at][scope]
    _share(plan, whole)
    return plan


def times(nodes: list[Node]) -> tuple[list[Time], list[Time]]:
    """The time of every node, and the time at which its pool's members are visited; see the module."""
    known: list[Time] = []
    visited: list[Time] = []
    for node in nodes:
        time = _latest((known[a] for a in node.args), node.pool.member if node.pool else node.level)
        if node.pool is not None:
            scope = node.pool.scope - Level.STEP
            if node.op in ("suffix_sum", "gae"):
                time = _turned(time, scope, BACKWARD)
            elif node.op in ("first", "last", "prefix_sum"):
                time = _turned(time, scope, FORWARD)
        visited.append(time)
        if node.kind == "fold":
            time = (*time[:scope], after(time[scope]))
        elif node.kind in ("rank", "aligned"):
            complete = _complete(nodes[node.args[0]], node, time[scope + 1 :])
            slot = time[scope] if complete else after(time[scope])
            time = (*time[:scope], slot) + (0,) * (len(time) - scope - 1)
        known.append(time)
    return known, visited


def after(turn: int) -> int:
    """The first slot after a pass that is followed by a pass forwards."""
    return (turn // 2 + 1) * 2


def _turned(time: Time, scope: int, parity: int) -> Time:
    """The earliest time, not before this one, whose passes below the scope all run in one direction."""
    found = list(time)
    for depth in range(scope, len(time) - 1):
        if found[depth] % 2 != parity:
            found[depth] += 1
            found[depth + 1 :] = [parity] * (len(time) - depth - 2) + [0]
            break
    return tuple(found)


def _complete(source: Node, node: Node, below: Time) -> bool:
    """Whether the source's array is there before any pass over the node's pool."""
    assert node.pool is not None
    early = source.pool is not None and source.pool.scope <= node.pool.scope and source.kind in ("rank", "aligned")
    return (source.kind == "input" or early) and not any(below)


def _latest(args: Iterable[Time], level: Level) -> Time:
    length = max(level - Level.STEP + 1, 1)
    return max(((t + (0,) * length)[:length] for t in args), default=(0,) * length)


def _costs(nodes: list[Node]) -> list[int]:
    """What computing a value again costs, in additions. A costly argument that others use too will itself be
    stored."""
    uses = Counter(a for node in nodes for a in set(node.args))
    costs: list[int] = []
    for node in nodes:
        again = (a for a in set(node.args) if nodes[a].level is node.level)
        inner = sum(costs[a] for a in again if costs[a] < COSTLY or uses[a] == 1)
        costs.append(COST.get(node.op, 1) + inner if node.kind == "elem" else 0)
    return costs


def _share(plan: Schedule, whole: set[int]) -> None:
    """Let a stored value live in the array of an elementwise output of its level that is written last, at the
    same position that is then read last."""
    readers: dict[int, list[tuple[Path, int]]] = defaultdict(list)
    for at, node in enumerate(plan.nodes):
        where = [plan.gathers[at]] if at in plan.gathers else node.bodies
        for a in node.args:
            readers[a].extend((body, at) for body in where)

    def before(reader: int, out: int, home: Path) -> bool:
        """Everything that this reader's value goes into, in the body that writes the output, goes into the
        output."""
        if reader >= out:
            return reader == out
        return all(before(c, out, home) for body, c in readers[reader] if body[: len(home)] == home)

    named = set(plan.outputs.values())
    free = {at: name for name, at in plan.outputs.items() if plan.nodes[at].kind == "elem"}
    for at, node in enumerate(plan.nodes):
        if not node.stored or at in named or at in whole or node.level <= Level.STEP:
            continue
        for out, name in free.items():
            home = plan.nodes[out].home
            if plan.nodes[out].level is not node.level or home is None or out <= at or node.home == home:
                continue
            if all(
                body[: len(home)] < home or (body == home and before(reader, out, home)) for body, reader in readers[at]
            ):
                node.shares = name
                del free[out]
                break


class _Parts:
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
        found = kind == "fold" and op in ("sum", "min", "max", "first", "last") and self.nodes[args[0]].whole
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
        members if the result needs it. `empty` None: nothing is to be done about an empty pool."""
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
        low = self.fold("min", x, pool, f"{stem}_low")
        high = self.fold("max", x, pool, f"{stem}_high")
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
        dead = self.elem("eq", low, high, label=f"{stem}_dead")
        return self.elem("select", dead, flat, result, level=pool.member, label=label)

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
