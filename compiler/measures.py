"""What formulas can read: the measures of the parts of an experiment, and the tables that its stages find.

    env.verified      the environment that the formulas are on       user.changed     the user that talks there
    turns.score       a judge, by its label                          policy.entropy   the policy, as the trainer sees it
    train.value       a stage that measures                          stage.step       the number of the training step
    calibrate.weight[tier]                                           a table of the stage `calibrate`

Each that is read becomes an input of the program, with a `SignalPlan` that says where its values come from.
"""

from __future__ import annotations

from functools import cache

from rlspec.compiler.builder import Builder, Value
from rlspec.compiler.elaborate import Elaborator
from rlspec.compiler.examiners import users_of
from rlspec.compiler.experiment import Declared, Experiment, Formula
from rlspec.compiler.levels import Level
from rlspec.compiler.plan import SignalPlan
from rlspec.compiler.ranges import INF, Range
from rlspec.compiler.scope import Table
from rlspec.compiler.types import NUMERIC, Type, read_type
from rlspec.dsl import compiled, parser, tree
from rlspec.dsl.diagnostics import Diagnostic, Source, near_name
from rlspec.dsl.packed import packed, unpacked

STEP = Type("int", Level.STEP, Range(0.0, INF))
OWN = {"stage.step": STEP, "policy.kl": Type("real", Level.TRAJ)}
"""Measures that no component declares: the number of the step in its training stage, from 0, and what a stage with its
KL in the reward takes from it."""


@cache
def measure_type(text: str) -> Type:
    """The type that a catalog entry writes for a measure."""
    report: list[Diagnostic] = []
    written = unpacked(compiled.kept(f"type {text}", lambda: packed(parser.parse_type(Source("catalog", text))[0])))
    found = read_type(written, report) if written is not None else None
    if found is None or report:
        raise ValueError(f"the catalog has an unreadable type: {text}")
    return found


class Inputs:
    """What the formulas of one environment read, as they are elaborated."""

    def __init__(self, experiment: Experiment, env: Declared, report: list[Diagnostic]) -> None:
        self.experiment, self.env, self.report = experiment, env, report
        self.elaborator = Elaborator(Builder(), report)
        self.elaborator.clock = self.step
        self.signals: dict[str, SignalPlan] = {}
        self.users = users_of(experiment, env.label)
        self.judges = [j for j in experiment.of("judge").values() if env.label in j.wiring.get("on", [env.label])]

    # --------------------------------------------------------------------------------------------------- the parts

    def parts(self) -> list[Declared]:
        """Who measures here, in the order of precedence of their labels."""
        own = [self.env, *self.users, *self.judges]
        stages = [s for s in self.experiment.of("stage").values() if s.schema.MEASURES]
        return [*own, *self.experiment.of("policy").values(), *stages]

    def part(self, target: str) -> Declared | None:
        """Who is called so here."""
        if target == "env":
            return self.env
        if target == "user":
            return self.users[0] if self.users else None
        if target == "policy":
            return next(iter(self.experiment.of("policy").values()), None)
        return next((p for p in self.parts() if p.label == target), None)

    def known(self) -> list[str]:
        """Names that stand before a dot."""
        policy = ["policy"] if self.experiment.of("policy") else []
        own = [p.label for p in self.parts() if p.kind != "policy"]
        return list(dict.fromkeys(["env", "user", *policy, "stage", *own]))

    def type_of(self, measure: str) -> Type:
        """The type of a measure ("turns.score") that an input reads.

        Raises:
            KeyError: nothing here measures it.
        """
        if measure in OWN:
            return OWN[measure]
        target, _, name = measure.partition(".")
        part = self.part(target)
        if part is None:
            raise KeyError(measure)
        return measure_type(part.schema.MEASURES[name])

    # ---------------------------------------------------------------------------------------------------- measures

    def measure(self, target: str, name: str, span: tree.Span) -> Value | None:
        """`env.verified`, `turns.score`: a measure read directly; None when nobody is called so."""
        if f"{target}.{name}" == "stage.step":
            return self.step()
        part = self.part(target)
        if part is None:
            self._no_table(target, name, span)
            near = near_name(target, self.known())
            if near and near != target:
                raise self.elaborator.fail("RLC0101", f"unknown name `{target}`", span, f"did you mean `{near}`?")
            return None
        return self.input(f"{_owner(part)}_{name}", part, name, span)

    def step(self) -> Value:
        """The number of the training step, as an input called `step`."""
        at = self.elaborator.builder.input("step", Level.STEP, "int")
        self.signals["step"] = SignalPlan(name="step", level="step", kind="int", measure="stage.step")
        return Value(at, "int", Level.STEP, STEP.range)

    def input(self, name: str, part: Declared, measure: str, span: tree.Span, declared: Type | None = None) -> Value:
        """An input of the program that reads a part's measure."""
        known = part.schema.MEASURES
        reasons: dict[str, str] = getattr(part.component, "unmeasured", dict)()
        if measure not in known or measure in reasons:
            self._no_table(part.label, measure, span)
            near = near_name(measure, known)
            hint = f"did you mean `{near}`?" if near else f"it measures {', '.join(known) or 'nothing'}"
            hint = reasons.get(measure, hint)
            raise self.elaborator.fail("RLC0109", f"`{part.label}` does not measure `{measure}`", span, hint)
        found = measure_type(known[measure])
        if declared is not None:
            self._agree(declared, found, span, f"{part.label}.{measure}")
        wanted = declared or found
        code = wanted.base in ("text", "enum")
        kind = "code" if code else wanted.base
        step = self.elaborator.builder.input(name, wanted.level, kind)
        self.signals[name] = SignalPlan(
            name=name,
            level=wanted.level.label,  # type: ignore[arg-type]
            kind=kind,  # type: ignore[arg-type]
            measure=f"{_owner(part)}.{measure}",
            choices=wanted.choices,
        )
        return Value(step, wanted.base, wanted.level, wanted.range, wanted.choices)

    def signal(self, formula: Formula) -> Value:
        """A declared signal."""
        node = formula.expression
        if not isinstance(node, tree.Member) or not isinstance(node.target, tree.Name):
            raise self.elaborator.fail(
                "RLC0205",
                "a signal is what env, user, judge or policy measure",
                node.span,
                "write `env.verified` or `judge.score`; a formula is a `let`",
            )
        if formula.name == "step" and (node.target.value, node.name.value) != ("stage", "step"):
            raise self.elaborator.fail("RLC0105", "`step` is the number of the training step", formula.item.head.span)
        if (node.target.value, node.name.value) == ("stage", "step"):
            if formula.type is not None:
                self._agree(formula.type, STEP, node.span, "stage.step")
            return self.step()
        part = self.part(node.target.value)
        if part is None:
            near = near_name(node.target.value, self.known())
            raise self.elaborator.fail(
                "RLC0101",
                f"on `{self.env.label}` nothing is called `{node.target.value}`",
                node.target.span,
                f"did you mean `{near}`?" if near else f"there are {', '.join(self.known())}",
            )
        return self.input(formula.name, part, node.name.value, node.span, formula.type)

    def _agree(self, declared: Type, found: Type, span: tree.Span, what: str) -> None:
        numeric = declared.base == "real" and found.base == "int"
        if (declared.base != found.base and not numeric) or declared.choices != found.choices:
            raise self.elaborator.fail("RLC0201", f"`{what}` is {found}, declared {declared}", span)
        if declared.level != found.level:
            raise self.elaborator.fail(
                "RLC0301",
                f"`{what}` varies over {found.level.label}, declared at level {declared.level.label}",
                span,
                f"write `@{found.level.label}`",
            )
        if declared.base in NUMERIC and not found.range.within(declared.range):
            raise self.elaborator.fail("RLC0402", f"`{what}` can be {found.range}, declared {declared.range}", span)

    # ------------------------------------------------------------------------------------------------------ tables

    def table(self, target: str, name: str, span: tree.Span) -> Table | None:
        """The table `target.name` of a stage; None when no stage is called so."""
        stage = self.experiment.of("stage").get(target)
        if stage is None:
            finders = [s.label for s in self.experiment.of("stage").values() if s.schema.RESULTS]
            near = near_name(target, finders)
            if near:
                raise self.elaborator.fail("RLC0101", f"there is no stage `{target}`", span, f"did you mean `{near}`?")
            return None
        if name not in stage.schema.RESULTS:
            near = near_name(name, stage.schema.RESULTS)
            found = ", ".join(stage.schema.RESULTS) or "nothing"
            hint = f"did you mean `{near}`?" if near else f"it finds {found}"
            raise self.elaborator.fail("RLC0109", f"stage `{target}` finds no `{name}`", span, hint)
        choices = self.choices(stage)
        low, high = stage.component.bounds(name) if stage.component is not None else (-INF, INF)
        return Table(f"{target}.{name}", choices, Range(low, high))

    def choices(self, stage: Declared) -> tuple[str, ...]:
        """The choices of the signal that a stage weighs."""
        label = getattr(stage.component, "signal", "")
        signal = next((f for f in self.experiment.formulas if f.kind == "signal" and f.name == label), None)
        if signal is None or signal.type is None or not signal.type.choices:
            message = f"stage `{stage.label}` weighs the choices of `{label or '?'}`, which has none"
            raise self.elaborator.fail("RLC0505", message, stage.item.head.span, "a signal of type `{a, b, c}@turn`")
        return signal.type.choices

    def _no_table(self, target: str, name: str, span: tree.Span) -> None:
        """Say what a table without a choice is."""
        stage = self.experiment.of("stage").get(target)
        if stage is not None and name in stage.schema.RESULTS:
            key = getattr(stage.component, "signal", "choice")
            raise self.elaborator.fail("RLC0201", f"`{target}.{name}` is a table", span,
                                       f"write `{target}.{name}[{key}]`")  # fmt: skip


def _owner(part: Declared) -> str:
    """The word before the dot in a measure's name. There is one policy, whatever its label."""
    return "policy" if part.kind == "policy" else part.label
