"""Kernels: a program as the text of one fused Python function that numba compiles.

    print(source(program))       # what `rlc compile --emit kernels` shows

`kernel(group_offsets, turn_offsets, token_offsets, <inputs>, <outputs>)` takes float64 arrays, one value per
member of the signal's level (inputs in the program's order, then outputs in theirs), and writes the outputs.
It allocates only what `rlspec.compiler.fusion` decided to store. Nothing here imports numba:
`rlspec.runtime.scoring` compiles the text.

Loops are named after what they run over (`group`, `traj`, `turn`, `token`), variables after the program's
signals and outputs; `x_per_turn` is a stored intermediate, `this_x` the current member's value of the array
`x`.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections import defaultdict
from functools import cache
from importlib.resources import files

from rlspec.compiler.formula import formula
from rlspec.compiler.fusion import after, schedule
from rlspec.compiler.levels import Level
from rlspec.compiler.loops import COUNTS, OFFSETS, Body, Statement, bounds, flat, folded, nest
from rlspec.compiler.parts import Node, Path
from rlspec.compiler.pools import Pool
from rlspec.compiler.program import Program
from rlspec.compiler.spelling import Text, literal, spelled
from rlspec.dsl.annotations import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

MATH = ("ceil", "cos", "exp", "inf", "log", "nan", "sqrt")
PARTS = {
    "add": (),
    "plus": (),
    "divide": ("inf",),
    "sign": (),
    "smaller": (),
    "larger": (),
    "clip": ("smaller", "larger"),
    "zscore_aligned": ("add", "divide", "smaller", "larger", "inf", "sqrt", "np"),
    "center_aligned": ("add", "smaller", "larger", "inf", "np"),
    "rank": ("np", "nan"),
    "rank_aligned": ("rank", "np", "nan"),
    "forward": ("np",),
    "top": ("np", "nan", "ceil"),
}
TAKEN = {
    *keyword.kwlist,
    *PARTS,
    *MATH,
    *OFFSETS.values(),
    *(v.label for v in Level),
    *(f"{v.label}s" for v in COUNTS),
    "settled",
    "place",
    "zscore",
    "center",
    "np",
    "range",
    "len",
    "float",
    "max",
    "abs",
    "kernel",
    "first",
    "stop",
}
RULES = {"zscore": ", ddof, epsilon, raw, flat", "center": ", raw, flat", "rank": ", raw, flat"}
INLINE = 72  # characters; a longer expression gets a name


def source(program: Program) -> str:
    """The module text of a program's kernel.

    Raises:
        ValueError: the program is not well formed (the step is named).
    """
    return _Writer(program).text()


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.plan = schedule(program)
        self.nodes = self.plan.nodes
        self.needs: set[str] = set()
        self.taken = set(TAKEN)
        self.bodies: dict[Path, Body] = defaultdict(Body)
        self.texts: dict[tuple[int, Path], Text] = {}
        self.slots: dict[tuple[int, Path], int] = {}
        self.variables: dict[tuple[int, bool], str] = {}
        self.scratch: list[str] = []
        self.signals = {i.name: self.fresh(i.name, "signal") for i in program.inputs}
        self.results = {name: self.fresh(name, "out") for name in program.outputs}
        self.arrays = {at: self.signals[n.op] for at, n in enumerate(self.nodes) if n.kind == "input"}
        self.copies: list[str] = []
        for name, at in self.plan.outputs.items():
            if at in self.arrays:
                self.copies.append(f"{self.results[name]}[:] = {self.arrays[at]}")
            elif self.nodes[at].kind == "const":
                self.copies.append(f"{self.results[name]}[0] = {literal(self.nodes[at].attrs['value']).text}")
            else:
                self.arrays[at] = self.results[name]
        mentioned: dict[int, list[Path]] = defaultdict(list)
        for at, own in self.plan.uses:
            mentioned[at].append(own)
        for at, node in enumerate(self.nodes):
            self.compute(at, node)
            for own in sorted(mentioned[at]):
                if (at, own) not in self.texts:
                    self.load(at, own)

    # -------------------------------------------------------------------------------------------------- names

    def fresh(self, name: str, role: str = "") -> str:
        """An identifier that nothing else has, as near to the name as possible."""
        stem = re.sub(r"\W", "_", name) or "x"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        if stem in self.taken and role:
            stem = f"{stem}_{role}"
        found, n = stem, 2
        while found in self.taken:
            found, n = f"{stem}_{n}", n + 1
        self.taken.add(found)
        return found

    def variable(self, at: int, loaded: bool = False) -> str:
        """The variable of a node's value: computed, or loaded from its array."""
        if (at, loaded) not in self.variables:
            label = self.nodes[at].label
            array = loaded or label in self.signals or label in self.results
            self.variables[at, loaded] = self.fresh(f"this_{label}" if array else label)
        return self.variables[at, loaded]

    def array(self, at: int) -> str:
        """The array of a stored node; scratch is made when it is first asked for."""
        node = self.nodes[at]
        if at not in self.arrays and node.shares:
            self.arrays[at] = self.results[node.shares]
        elif at not in self.arrays:
            self.arrays[at] = self.fresh(f"{node.label}_per_{node.level.label}")
            self.scratch.append(f"{self.arrays[at]} = np.empty({node.level.label}s)")
            self.needs.add("np")
        return self.arrays[at]

    def element(self, at: int) -> str:
        level = self.nodes[at].level
        return f"{self.array(at)}[{level.label if level > Level.STEP else 0}]"

    def spell(self, op: str, given: list[Text]) -> Text:
        text, call = spelled(op, given)
        self.need(call)
        return text

    def need(self, part: str) -> None:
        self.needs.update((part, *PARTS.get(part, ())))

    # ---------------------------------------------------------------------------------------- where things go

    def say(self, body: Path, slot: int, statement: Statement) -> None:
        self.open(body)
        self.bodies[body].statements[slot].append(statement)

    def open(self, body: Path) -> None:
        for depth, turn in enumerate(body):
            self.bodies[body[:depth]].loops.add(turn)

    def own(self, at: int, body: Path) -> Path:
        """The body at the node's own level that encloses (or is) this one."""
        return body[: max(self.nodes[at].level - Level.STEP, 0)]

    def read(self, args: tuple[int, ...], body: Path) -> tuple[list[Text], int]:
        """How the body spells its arguments, and the slot in which it has them all."""
        texts = [self.texts[a, self.own(a, body)] for a in args]
        slots = [self.slots.get((a, body), 0) for a in args if self.own(a, body) == body]
        return texts, max(slots, default=0)

    def load(self, at: int, own: Path) -> None:
        """A value that comes out of an array: by a variable where an inner loop reads it, else in place."""
        self.slots[at, own] = 0
        self.texts[at, own] = Text(self.element(at))
        if any(user != own for user in self.plan.uses[at, own]):
            variable = self.variable(at, loaded=True)
            self.say(own, 0, Statement(at, [f"{variable} = {self.element(at)}"]))
            self.texts[at, own] = Text(variable)

    def compute(self, at: int, node: Node) -> None:
        match node.kind:
            case "const":
                self.texts[at, ()] = literal(node.attrs["value"])
            case "elem":
                for body in sorted(node.bodies):
                    self.elementwise(at, node, body)
            case "fold" if node.home is not None:
                self.fold(at, node, node.home)
            case "scan" | "gae" if node.home is not None:
                self.recurrence(at, node, node.home)
            case "rank" | "aligned" if node.home is not None:
                self.block(at, node, node.home)

    # -------------------------------------------------------------------------------------------- elementwise

    def elementwise(self, at: int, node: Node, body: Path) -> None:
        given, slot = self.read(node.args, body)
        self.slots[at, body] = slot
        if node.op in ("span", "num"):
            first, stop = bounds(node.attrs["members"])
            count = Text(f"{stop} - {first}" if first != "0" else stop, 5 if first != "0" else 9)
            text = count if node.op == "span" else Text(f"float({count.text})")
        elif node.op == "index":
            first, _ = bounds(Pool(Level(node.level - 1), node.level))
            text = Text(f"float({node.level.label} - {first})" if first != "0" else f"float({node.level.label})")
        else:
            text = self.spell(node.op, given)
        users = self.plan.uses.get((at, body), [])
        if node.stored:
            self.store(at, body, slot, text, bool(users))
        elif text.text.isidentifier() or (users == [body] and len(text.text) <= INLINE):
            self.texts[at, body] = text
        else:
            variable = self.variable(at)
            note = "  # no signal, and no noise either" if node.label.endswith("_dead") else ""
            self.say(body, slot, Statement(at, [f"{variable} = {text.text}{note}"]))
            self.texts[at, body] = Text(variable, boolean=text.boolean)

    def store(self, at: int, body: Path, slot: int, text: Text, used: bool) -> None:
        """Write a value to its array; what is used again in the same body goes through a variable."""
        if not used:
            self.say(body, slot, Statement(at, [f"{self.element(at)} = {text.number().text}"]))
            return
        variable = self.variable(at)
        self.say(
            body,
            slot,
            Statement(at, [f"{variable} = {text.number().text}", f"{self.element(at)} = {variable}"]),
        )
        self.texts[at, body] = Text(variable)

    # ------------------------------------------------------------------------------------------- over members

    def fold(self, at: int, node: Node, home: Path) -> None:
        """Gather a value in the members' loop, and settle it in the slot after that loop."""
        inner = self.plan.gathers[at]
        given, slot = self.read((node.args[0], *(node.args[1:] if node.attrs["where"] else ())), inner)
        variable, empty = self.variable(at), node.attrs["empty"]
        nothing = literal(0.0 if empty is None else empty).text
        own_count = (node.attrs["where"] and node.attrs["counted"]) or node.op == "first"
        count = self.fresh(f"{variable}_count") if own_count else ""
        if node.attrs["counted"] and not count:
            count = self.texts[node.args[1], home].bound(6)
        under = given[1].condition().text if node.attrs["where"] else ""
        if under and node.op in ("sum", "mean"):  # adding 0 loses nothing, and a processor cannot guess it wrongly
            given[0] = self.spell("select", [given[1], given[0], literal(0.0)])
        gather, start, settled = self._gathered(at, node, variable, given[0], count, nothing)
        if own_count:
            start.append(f"{count} = 0")
            gather.append(f"{count} += 1")
        if under and node.op in ("sum", "mean"):
            self.say(inner, slot, Statement(at, [gather.pop(0)]))
        if node.op in ("any", "all"):
            test = given[0] if node.op == "any" else self.spell("not", [given[0]])
            if under and not own_count:
                test, under = self.spell("and", [given[1], test]), ""
            gather[0] = f"{variable} = plus({variable}, {test.condition().number().text})"
        if empty is not None and node.op not in ("first", "last"):
            settled = f"({settled}) if {count} > 0 else {nothing}"
        depth = len(home)
        self.open(inner)
        self.bodies[home].starts[inner[depth]].extend(start)
        if gather:
            self.say(inner, slot, Statement(at, gather, under))
        lines = [] if settled == variable else [f"{variable} = {settled}"]
        if node.stored:
            lines.append(f"{self.element(at)} = {variable}")
        self.slots[at, home] = after(inner[depth])
        self.say(home, self.slots[at, home], Statement(at, lines))
        self.texts[at, home] = Text(variable)

    def _gathered(
        self, at: int, node: Node, variable: str, x: Text, count: str, nothing: str
    ) -> tuple[list[str], list[str], str]:
        """Of a fold: what the members' loop does, what is before it, and the result after it."""
        number = x.number().text
        match node.op:
            case "sum" | "mean" | "std":
                exact = node.op != "std" and (self.nodes[node.args[0]].whole or node.attrs.get("rough"))
                if exact:  # nothing is lost, or what is lost is seen to elsewhere
                    self.need("plus")
                    total, begin = variable, f"{variable} = 0.0"
                    grow = f"{variable} = plus({variable}, {number})"
                else:
                    self.need("add")
                    lost = self.fresh(f"{variable}_lost")
                    total, begin = f"settled({variable}, {lost})", f"{variable}, {lost} = 0.0, 0.0"
                    grow = f"{variable}, {lost} = add({variable}, {lost}, {number})"
                if node.op == "mean":
                    total += f" / {count}" if node.attrs["empty"] is not None else f" / max({count}, 1)"
                elif node.op == "std":
                    self.needs.add("sqrt")
                    free = f"{count} - {node.attrs['ddof']}" if node.attrs["ddof"] else count
                    total = f"sqrt({total} / max({free}, 1))"
                return [grow], [begin], total
            case "min" | "max":
                pick, start = ("smaller", "inf") if node.op == "min" else ("larger", "-inf")
                self.need(pick)
                self.needs.add("inf")
                return [f"{variable} = {pick}({variable}, {number})"], [f"{variable} = {start}"], variable
            case "any" | "all":
                self.need("plus")  # how many there are: a processor adds without having to guess
                hit, miss = ("1.0", "0.0") if node.op == "any" else ("0.0", "1.0")
                return [""], [f"{variable} = 0.0"], f"{hit} if {variable} > 0.0 else {miss}"
            case "count":
                self.need("plus")
                counted = f"{variable} = plus({variable}, {x.condition().number().text})"
                return [counted], [f"{variable} = 0.0"], variable
            case "first":
                return (
                    [f"{variable} = {number} if {count} == 0 else {variable}"],
                    [f"{variable} = {nothing}"],
                    variable,
                )
        return [f"{variable} = {number}"], [f"{variable} = {nothing}"], variable

    def recurrence(self, at: int, node: Node, inner: Path) -> None:
        """A scan or a GAE: what is carried from member to member, written to its array as it goes."""
        assert node.pool is not None
        given, slot = self.read(node.args, inner)
        carry = self.fresh(f"{node.label}_carry")
        start = [f"{carry} = 0.0"]
        if node.kind == "scan":
            kept = self.spell("mul", [given[1], Text(carry)])
            lines = [f"{carry} = {self.spell('add', [given[0], kept]).text}"]
        else:
            reward, value, gamma, lam = given
            following = self.fresh(f"{node.label}_next")
            start = [f"{carry}, {following} = 0.0, 0.0  # nothing is worth anything after the end"]
            ahead = self.spell("add", [reward, self.spell("mul", [gamma, Text(following)])])
            error = self.spell("sub", [ahead, value])
            decay = self.spell("mul", [gamma, lam])
            lines = [
                f"{carry} = {self.spell('add', [error, self.spell('mul', [decay, Text(carry)])]).text}",
                f"{following} = {value.number().text}",
            ]
        depth = node.pool.scope - Level.STEP
        self.open(inner)
        self.bodies[inner[:depth]].starts[inner[depth]].extend(start)
        if node.stored:
            lines.append(f"{self.element(at)} = {carry}")
        self.say(inner, slot, Statement(at, lines))
        self.slots[at, inner] = slot
        self.texts[at, inner] = Text(carry)

    def block(self, at: int, node: Node, home: Path) -> None:
        """A rank, a top or an aligned normaliser: one call per member of the scope, on slices."""
        assert node.pool is not None
        call = f"{node.op}_aligned" if node.kind == "aligned" else node.op
        self.need(call)
        values, results = self.array(node.args[0]), self.array(at)
        if node.op == "top":
            rules = [repr(float(node.attrs["share"]))]
        else:
            rules = [repr(node.attrs["raw"]), literal(node.attrs["zero"]).text]
        if node.op == "zscore":
            rules = [repr(int(node.attrs["ddof"])), repr(float(node.attrs["epsilon"])), *rules]
        lines: list[str] = []
        if node.kind == "aligned":
            parent = Level(node.pool.member - 1)
            first, stop = bounds(Pool(node.pool.scope, parent))
            offsets = OFFSETS[parent]
            if first != "0":
                offsets = f"{offsets}[{first} : {stop} + 1]"
            given = [values, offsets, results, repr(node.attrs["missing"] == "zero"), *rules]
        else:
            first, stop = bounds(node.pool)
            part = "[first:stop]" if first != "0" else ""
            lines = [f"first, stop = {first}, {stop}"] if part else []
            given = [values + part, results + part, *rules]
        self.say(home, self.plan.slots[at], Statement(at, [*lines, f"{call}({', '.join(given)})"]))

    # ------------------------------------------------------------------------------------------------- layout

    def text(self) -> str:
        """The whole module."""
        lines = [*flat(nest(self.bodies)), *self.copies] or ["return"]
        lines = [*self.scratch, *lines]
        if any(" in forward(" in line for line in lines):
            self.need("forward")
        counts = [
            f"{level.label}s = {count}"
            for level, count in COUNTS.items()
            if any(re.search(rf"\b{level.label}s\b", line) for line in lines)
        ]
        signature = ["group_offsets, turn_offsets, token_offsets"]
        signature += [", ".join(names) for names in (self.signals.values(), self.results.values()) if names]
        text = _template().render(
            names=[n for n in MATH if n in self.needs or any(re.search(rf"\b{n}\b", line) for line in lines)],
            parts=self.needs,
            aligned=[(fn, RULES[fn]) for fn in RULES if f"{fn}_aligned" in self.needs],
            signature=signature,
            docstring=self.docstring(),
            body=[part for line in [*counts, *lines] for part in folded(line)],
        )
        return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"

    def docstring(self) -> str:
        """The program's formulas."""
        formulas = [f"{name} = {formula(self.program, name)}" for name in self.program.outputs]
        wrapped = [textwrap.wrap(f, 105, subsequent_indent="        ", break_long_words=False) for f in formulas]
        lines = [line for paragraph in wrapped for line in paragraph]
        return "\n    ".join(lines).replace("\\", "\\\\").replace('"', "'")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    text = files("rlspec.compiler").joinpath("kernel.j2").read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(text)
