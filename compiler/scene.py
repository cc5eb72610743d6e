"""Scenes: a few literal trajectories, and expressions evaluated on them by the plain evaluator.

    given.outcome = 0             one number per trajectory, or one list with a number for each trajectory of a group
    given.verdict = [1, -1, 0]    one list of turns; a list of such lists for the trajectories of a group

A plain number stands for all members of its level. Trajectories of a scene are one group. What may be given: signals,
measures (`given.env.db_hash = "a"`), formulas, which then count as given instead of being computed, and the tables of
stages: `given.calibrate.weight { gold = 1.0  err = -0.1 }`, or a list in the order of the choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from rlspec.compiler import static
from rlspec.compiler.binding import bind, tables_of
from rlspec.compiler.builder import Value
from rlspec.compiler.elaborate import Failed, Scope
from rlspec.compiler.evaluator import evaluate
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formulas import EnvFormulas
from rlspec.compiler.levels import Level
from rlspec.compiler.measures import OWN
from rlspec.compiler.program import Program
from rlspec.compiler.ranges import Range, number_text
from rlspec.compiler.static import Quantity, Series, Static, Symbol
from rlspec.compiler.types import NUMERIC, Type
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any, TypeAlias
from rlspec.dsl.dataclass import dataclass, field, names_of, replace
from rlspec.dsl.diagnostics import Diagnostic, near_name

Nested: TypeAlias = "float | list[Nested]"

# How deep the list of one trajectory's values is; a group's is one deeper.
DEPTH = {Level.TRAJ: 0, Level.TURN: 1, Level.TOKEN: 2}


@dataclass(frozen=True, slots=True)
class Given:
    """`words` is a name, or a target and its measure."""

    words: tuple[str, ...]
    value: tree.Expression
    span: tree.Span

    @property
    def name(self) -> str:
        return ".".join(self.words)


@dataclass(frozen=True, slots=True)
class Result:
    """An expression's values in the order of its level's members; `shown` as nested lists of the scene's shape."""

    text: str
    value: Value
    numbers: tuple[float, ...]
    shown: str


@dataclass(slots=True)
class Literals:
    """The batch that the evaluator reads: offsets as in `rlspec.compiler.evaluator.Batch`."""

    group_offsets: list[int]
    turn_offsets: list[int]
    token_offsets: list[int]
    signals: dict[str, list[float]] = field(default_factory=dict)


class Scene:
    """Literal trajectories on one environment.

    Raises (from the constructor and all methods):
        Failed: after reporting.
    """

    def __init__(
        self,
        experiment: Experiment,
        env: Declared,
        givens: Iterable[Given],
        report: list[Diagnostic],
        stage: Declared | None = None,
    ) -> None:
        self.report = report
        self.formulas = EnvFormulas(experiment, env, report, stage)
        self.tables: dict[str, dict[str, float]] = {}
        self.params = experiment.params
        self.texts: dict[str, int] = {}
        self.givens = list(givens)
        self.nested: dict[str, tuple[Level, Nested, tree.Span]] = {}
        self.by_measure: dict[str, str] = {}
        self.lists: dict[str, Value] = {}
        for given in self.givens:
            if not self._table(given):
                self._read(given)
        for name, table in self.tables.items():
            self._whole(name, table)
        self.many = any(_depth(v) > DEPTH[level] for level, v, _ in self.nested.values() if level in DEPTH)
        self.batch = Literals([0, 1], [0], [0])
        self._shape()

    def fail(self, code: str, message: str, span: tree.Span, label: str = "") -> Failed:
        self.report.append(Diagnostic(code, message, span, label=label))
        return Failed()

    # ------------------------------------------------------------------------------------------------ what is given

    def _read(self, given: Given) -> None:
        if given.name in self.nested:
            raise self.fail("RLC0105", f"`{given.name}` is given twice", given.span)
        wanted, name = self._target(given)
        value = static.leaf(given.value, self.params, self.report).value
        self.nested[name] = (wanted.level, self._numbers(value, wanted, given), given.span)

    def _table(self, given: Given) -> bool:
        """Read a table's values, if that is what is given."""
        stage = self.formulas.experiment.of("stage").get(given.words[0])
        if stage is None or len(given.words) < 2 or given.words[1] in stage.schema.MEASURES:
            return False
        found = self.formulas.table(given.words[0], given.words[1], given.span)
        assert found is not None
        table = self.tables.setdefault(found.name, {})
        value = static.leaf(given.value, self.params, self.report).value
        listed = value.items if isinstance(value, Series) else (value,)
        choices = found.choices if len(given.words) == 2 else given.words[2:]
        if unknown := [c for c in choices if c not in found.choices]:
            near = near_name(unknown[0], found.choices)
            hint = f"did you mean `{near}`?" if near else f"the choices are {', '.join(found.choices)}"
            raise self.fail("RLC0202", f"`{found.name}` has no `{unknown[0]}`", given.span, hint)
        if len(listed) != len(choices):
            message = f"`{found.name}` has {len(choices)} choices, not {len(listed)}: {', '.join(choices)}"
            raise self.fail("RLC0803", message, given.value.span)
        for choice, entry in zip(choices, listed, strict=True):
            if choice in table:
                raise self.fail("RLC0105", f"`{found.name}.{choice}` is given twice", given.span)
            number = self._numbers(entry, Type("real", range=found.range), given)
            assert isinstance(number, float)
            table[choice] = number
        return True

    def _whole(self, name: str, table: dict[str, float]) -> None:
        owner, _, result = name.partition(".")
        span = next(g.span for g in self.givens if g.words[:2] == (owner, result))
        found = self.formulas.table(owner, result, span)
        missing = [c for c in found.choices if c not in table] if found else []
        if missing:
            raise self.fail("RLC0803", f"`{name}` is given without {', '.join(missing)}", span)

    def _bound(self, outputs: dict[str, int]) -> Program:
        """The program of some results, with the tables that are given."""
        program = self.formulas.elaborator.builder.program(outputs)
        known = {}
        for name, table in self.tables.items():
            owner, _, result = name.partition(".")
            found = self.formulas.table(owner, result, tree.Span(0, 0))
            assert found is not None
            known[name] = [table[c] for c in found.choices]
        return bind(program, known)

    def _target(self, given: Given) -> tuple[Type, str]:
        """The type of what is given, and the name of the program's input for it."""
        builder = self.formulas.elaborator.builder
        if len(given.words) == 2:
            found = self.formulas.measure(*given.words, given.span)
            if found is None:
                raise self.fail("RLC0101", f"unknown name `{given.words[0]}`", given.span)
            name = str(builder.steps[found.step].attrs["name"])
            self.by_measure[self.formulas.signals[name].measure] = name
            return self.formulas.type_of(self.formulas.signals[name].measure), name
        name = given.words[0]
        formula = next((f for f in self.formulas.formulas if f.name == name), None)
        if formula is None or len(given.words) != 1:
            if given.words in (("kl",), ("step",)):
                return OWN["policy.kl" if name == "kl" else "stage.step"], name
            names = [f.name for f in self.formulas.formulas]
            near = near_name(name, names)
            hint = f"did you mean `{near}`?" if near else f"on `{self.formulas.env.label}` there are {', '.join(names)}"
            raise self.fail("RLC0101", f"there is nothing called `{given.name}` to give", given.span, hint)
        wanted = formula.type
        if wanted is None:
            known = self.formulas.named(formula)
            wanted = Type(known.base, known.level, Range(), known.choices)
        kind = "code" if wanted.base in ("text", "enum") else wanted.base
        step = builder.input(name, wanted.level, kind)
        self.formulas.values[name] = Value(step, wanted.base, wanted.level, wanted.range, wanted.choices)
        return wanted, name

    def _numbers(self, value: Static, wanted: Type, given: Given) -> Nested:
        if isinstance(value, Series):
            return [self._numbers(item, wanted, given) for item in value.items]
        span = given.value.span
        if wanted.base in NUMERIC and isinstance(value, Quantity):
            if not Range.of(value.value).within(wanted.range):
                shown = number_text(value.value)
                raise self.fail("RLC0401", f"`{given.name}` is in {wanted.range}, not {shown}", span)
            return value.value
        if wanted.base == "bool" and isinstance(value, bool):
            return float(value)
        if wanted.base == "text" and isinstance(value, str):
            return float(self.texts.setdefault(value, len(self.texts)))
        if wanted.base == "enum" and isinstance(value, Symbol) and value.name in wanted.choices:
            return float(wanted.choices.index(value.name))
        raise self.fail("RLC0201", f"`{given.name}` is {wanted}, not {static.shown(value)}", span)

    # -------------------------------------------------------------------------------------------------- their shape

    def _shape(self) -> None:
        """Count trajectories, turns and tokens, then lay the values out flat."""
        trajectories = 1
        turns: list[int] | None = None
        tokens: list[int] | None = None
        rows = {name: self._rows(name, *entry) for name, entry in self.nested.items()}
        if self.many:
            counts = [len(row) for row in rows.values() if isinstance(row, list)]
            trajectories = counts[0]
            self._agree(counts, "trajectories")
        for name, row in rows.items():
            level = self.nested[name][0]
            parts = row if isinstance(row, list) else [row] * trajectories
            lists = [p for p in parts if isinstance(p, list)]
            if level < Level.TURN or not lists:
                continue
            if turns is not None:
                self._agree([sum(turns), sum(map(len, lists))], "turns", turns != [len(p) for p in lists])
            turns = [len(p) for p in lists]
            inner = [t for p in lists for t in p if isinstance(t, list)]
            if inner:
                if tokens is not None:
                    self._agree([sum(tokens), sum(map(len, inner))], "tokens", tokens != [len(t) for t in inner])
                tokens = [len(t) for t in inner]
        turns = turns if turns is not None else [1] * trajectories
        tokens = tokens if tokens is not None else [1] * sum(turns)
        self.batch = Literals([0, trajectories], [0, *accumulate(turns)], [0, *accumulate(tokens)])
        for name, (level, nested, span) in self.nested.items():
            self.batch.signals[name] = self._column(level, nested, span)

    def _agree(self, counts: list[int], what: str, differ: bool = False) -> None:
        if differ or len(set(counts)) > 1:
            span = next(iter(self.nested.values()))[2].to(list(self.nested.values())[-1][2])
            listed = " and ".join(str(c) for c in dict.fromkeys(counts))
            raise self.fail("RLC0803", f"the given values are of different {what}: {listed}", span)

    def _rows(self, name: str, level: Level, nested: Nested, span: tree.Span) -> Nested:
        """One entry per trajectory, or a plain number for all."""
        if not isinstance(nested, list):
            return nested
        depth, wanted = _depth(nested), DEPTH.get(level, 0) + self.many
        if level not in DEPTH or depth != wanted or not _even(nested, depth):
            shape = {0: "one value", 1: "a list", 2: "a list of lists", 3: "lists of lists of lists"}[min(wanted, 3)]
            words = "several trajectories" if self.many else "one trajectory"
            raise self.fail("RLC0803", f"`{name}` varies over {level.label}: for {words} it is {shape}", span)
        return nested if self.many else [nested]

    def _column(self, level: Level, nested: Nested, span: tree.Span) -> list[float]:
        flat = list(_flat(nested))
        batch = self.batch
        below = {Level.TRAJ: batch.group_offsets, Level.TURN: batch.turn_offsets, Level.TOKEN: batch.token_offsets}
        size = below[level][-1] if level in below else 1
        if not isinstance(nested, list):
            return flat * size
        if len(flat) != size:
            raise self.fail("RLC0803", f"{len(flat)} values for {size} members of level {level.label}", span)
        return flat

    # --------------------------------------------------------------------------------------------------- evaluation

    def scope(self) -> Scope:
        """What names mean here."""
        plain = self.formulas.scope()
        return Scope({**plain.names, **self.lists}, plain.definitions, plain.member, plain.table)

    def prepared(self, node: tree.Expression) -> tree.Expression:
        """The expression with its literal lists as inputs of the scene."""
        if isinstance(node, tree.ListOf):
            name = f"[{len(self.lists)}]"
            value = static.leaf(node, self.params, self.report).value
            nested = self._numbers(value, Type("real"), Given((name,), node, node.span))
            level = Level(Level.TURN - self.many + _depth(nested) - 1)
            self.batch.signals[name] = self._column(level, self._rows("it", level, nested, node.span), node.span)
            step = self.formulas.elaborator.builder.input(name, level, "real")
            self.lists[name] = Value(step, "real", level, Range())
            return tree.Name(name, node.span)
        return mapped(node, self.prepared)

    def value(self, node: tree.Expression) -> Value:
        """The elaborated expression."""
        return self.formulas.elaborator.value(node, self.scope())

    def needs(self, values: Iterable[Value]) -> list[str]:
        """The inputs of these values that nobody has given."""
        outputs = {str(n): v.step for n, v in enumerate(values)}
        program = self._bound(outputs)
        missing = list(tables_of(program))
        for wanted in program.inputs:
            if wanted.name in self.batch.signals:
                continue
            plan = self.formulas.signals.get(wanted.name)
            source = self.by_measure.get(plan.measure) if plan else None
            if source is not None:
                self.batch.signals[wanted.name] = self.batch.signals[source]
            else:
                missing.append(self._spelled(wanted.name))
        return missing

    def _spelled(self, name: str) -> str:
        """The name by which an input is given."""
        if any(f.name == name for f in self.formulas.formulas) or name not in self.formulas.signals:
            return name
        target, measure = self.formulas.signals[name].measure.split(".")
        return f"env.{measure}" if target == self.formulas.env.label else f"{target}.{measure}"

    def results(self, nodes: Iterable[tuple[str, Value]]) -> list[Result]:
        """The numbers of elaborated expressions, each with its text. Everything that they need must be given."""
        listed = list(nodes)
        outputs = {str(n): v.step for n, (_, v) in enumerate(listed)}
        columns = evaluate(self._bound(outputs), self.batch)
        out = []
        for n, (text, value) in enumerate(listed):
            numbers = tuple(columns[str(n)])
            out.append(Result(text, value, numbers, self._shown(value, numbers)))
        return out

    def _shown(self, value: Value, numbers: tuple[float, ...]) -> str:
        words = {code: text for text, code in self.texts.items()}

        def one(number: float) -> str:
            if value.base == "bool":
                return "true" if number else "false"
            if value.base == "enum":
                return value.choices[int(number)]
            if value.base == "text":
                return f'"{words.get(int(number), "?")}"'
            return f"{number + 0.0:.10g}"  # no minus before a zero

        texts = [one(n) for n in numbers]
        level = self.formulas.elaborator.builder.level(value.step)
        if level is Level.TOKEN:
            texts = [_bracketed(texts[a:b]) for a, b in _pairs(self.batch.token_offsets)]
        if level >= Level.TURN:
            texts = [_bracketed(texts[a:b]) for a, b in _pairs(self.batch.turn_offsets)]
        return _bracketed(texts) if self.many and level >= Level.TRAJ else ", ".join(texts)


def _pairs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    return pairwise(offsets)


def _bracketed(texts: list[str]) -> str:
    return "[" + ", ".join(texts) + "]"


def _depth(nested: Nested) -> int:
    return 1 + max((_depth(n) for n in nested), default=0) if isinstance(nested, list) else 0


def _even(nested: Nested, depth: int) -> bool:
    """No list holds numbers beside lists. An empty list may end early."""
    if not isinstance(nested, list):
        return depth == 0
    return depth > 0 and all(_even(n, depth - 1) for n in nested)


def _flat(nested: Nested) -> Iterator[float]:
    if isinstance(nested, list):
        for inner in nested:
            yield from _flat(inner)
    else:
        yield nested


def mapped(node: Any, change: Any) -> Any:
    """An expression with `change` applied to its direct parts."""
    if isinstance(node, tree.SetOf | tree.Name) or not names_of(node):
        return node
    changes: dict[str, Any] = {}
    for name in names_of(node):
        old = getattr(node, name)
        if isinstance(old, tuple):
            changes[name] = tuple(_changed(o, change) for o in old)
        else:
            changes[name] = _changed(old, change)
    return replace(node, **changes)


def _changed(part: Any, change: Any) -> Any:
    if isinstance(part, tree.Argument):
        return mapped(part, change)
    if names_of(part) and not isinstance(part, tree.Span):
        return change(part)
    return part
