"""Formulas of one environment: its signals, rewards and advantage as one program.

Every environment of a mix has a program of its own, because its rewards, its judge and its group statistics are its
own; a formula without `on` belongs to all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from rlspec.compiler.builder import Builder, Value
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.elaborate import Elaborator, Failed, Scope
from rlspec.compiler.experiment import Declared, Experiment, Formula
from rlspec.compiler.levels import Level
from rlspec.compiler.library import standard
from rlspec.compiler.plan import SignalPlan, TermPlan
from rlspec.compiler.program import Program
from rlspec.compiler.ranges import Range
from rlspec.compiler.types import NUMERIC, Type, read_type
from rlspec.dsl import parser, tree
from rlspec.dsl.diagnostics import Diagnostic, Severity, Source, near_name
from rlspec.dsl.printer import text_of


@dataclass(slots=True)
class Formulas:
    """One environment's formulas, elaborated."""

    env: str
    user: str | None
    judges: tuple[str, ...]
    program: Program
    signals: tuple[SignalPlan, ...]
    reward: str
    advantage: str
    advantage_level: Level
    terms: tuple[TermPlan, ...]
    ranges: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    formulas: dict[str, str] = field(default_factory=dict)


@cache
def measure_type(text: str) -> Type:
    """The type that a catalog entry writes for a measure."""
    file, report = parser.parse(Source("catalog", f"x m : {text} = 0"))
    found = read_type(file.items[0].head.type, report) if file.items and file.items[0].head.type else None
    if found is None or report:
        raise ValueError(f"the catalog has an unreadable type: {text}")
    return found


class EnvFormulas:
    """Elaborates the formulas of one environment."""

    def __init__(self, experiment: Experiment, env: Declared, report: list[Diagnostic]) -> None:
        self.experiment, self.env, self.report = experiment, env, report
        self.elaborator = Elaborator(Builder(), report)
        self.signals: dict[str, SignalPlan] = {}
        self.values: dict[str, Value] = {}
        self.used: set[str] = set()
        self.users = [u for u in experiment.of("user").values() if env.label in u.wiring.get("serves", [env.label])]
        self.judges = [j for j in experiment.of("judge").values() if env.label in j.wiring.get("on", [env.label])]
        self.formulas = [f for f in experiment.formulas if f.on in (None, env.label)]
        self._pending: set[str] = set()

    # --------------------------------------------------------------------------------------------------- scope

    def scope(self) -> Scope:
        names = {f.name: (lambda f=f: self.named(f)) for f in self.formulas}
        for name, leaf in self.experiment.params.items():
            if isinstance(leaf.value, bool):
                continue
            number = getattr(leaf.value, "value", None)
            if isinstance(number, float | int):
                names.setdefault(name, self.elaborator.constant(float(number)))  # type: ignore[arg-type]
        definitions = {**standard(), **self.experiment.definitions}
        return Scope(names, definitions, self.measure)

    def named(self, formula: Formula) -> Value:
        """The value of a declared formula, elaborated when it is first needed."""
        self.used.add(formula.name)
        if formula.name not in self.values:
            if formula.name in self._pending:
                circle = " -> ".join([*sorted(self._pending), formula.name])
                raise self.elaborator.fail(
                    "RLC0106",
                    f"`{formula.name}` is defined by itself",
                    formula.item.head.span,
                    notes=[circle],
                )
            self._pending.add(formula.name)
            try:
                self.values[formula.name] = self._elaborate(formula)
            finally:
                self._pending.discard(formula.name)
        return self.values[formula.name]

    def _elaborate(self, formula: Formula) -> Value:
        if formula.kind == "signal":
            return self._signal(formula)
        found = self.elaborator.value(formula.expression, self.scope())
        if formula.type is None:
            return found
        what = f"{formula.kind} `{formula.name}`"
        conformed = self.elaborator.conform(found, formula.type, formula.expression.span, what)
        return self._with_kl(conformed) if formula.kind == "reward" else conformed

    def _with_kl(self, reward: Value) -> Value:
        """A stage that places its KL in the reward takes it from every trajectory's reward, in the program itself, so
        that groups are compared after it."""
        stages = [d.component for d in self.experiment.of("stage").values()]
        paid = [s.kl.coefficient for s in stages if isinstance(s, Grpo) and s.kl.place == "reward"]
        coefficient = max(paid, default=0.0)
        if coefficient == 0.0 or reward.level is not Level.TRAJ:
            return reward
        builder = self.elaborator.builder
        kl = builder.input("kl", Level.TRAJ, "real")
        self.signals["kl"] = SignalPlan(name="kl", level="traj", kind="real", measure="policy.kl")
        step = builder.apply("sub", reward.step, builder.apply("mul", builder.const(coefficient), kl))
        return Value(step, "real", Level.TRAJ, Range())

    def measure(self, target: str, name: str, span: tree.Span) -> Value | None:
        """`env.verified`, `turns.score`: a measure read directly."""
        part = self._part(target)
        if part is None:
            near = near_name(target, ["env", "user", *(p.label for p in self.parts())])
            if near and near != target:
                raise self.elaborator.fail("RLC0101", f"unknown name `{target}`", span, f"did you mean `{near}`?")
            return None
        return self._input(f"{part.label}_{name}", part, name, span)

    def parts(self) -> list[Declared]:
        return [self.env, *self.users, *self.judges]

    def _part(self, target: str) -> Declared | None:
        if target == "env":
            return self.env
        if target == "user":
            return self.users[0] if self.users else None
        return next((p for p in self.parts() if p.label == target), None)

    def _input(self, name: str, part: Declared, measure: str, span: tree.Span, declared: Type | None = None) -> Value:
        known = part.schema.MEASURES
        if measure not in known:
            near = near_name(measure, known)
            hint = f"did you mean `{near}`?" if near else f"it measures {', '.join(known) or 'nothing'}"
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
            measure=f"{part.label}.{measure}",
            choices=wanted.choices,
        )
        return Value(step, wanted.base, wanted.level, wanted.range, wanted.choices)

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

    def _signal(self, formula: Formula) -> Value:
        node = formula.expression
        if not isinstance(node, tree.Member) or not isinstance(node.target, tree.Name):
            raise self.elaborator.fail(
                "RLC0205",
                "a signal is what env, user or judge measure",
                node.span,
                "write `env.verified` or `judge.score`; a formula is a `let`",
            )
        part = self._part(node.target.value)
        if part is None:
            known = ["env", "user", *(p.label for p in self.parts())]
            near = near_name(node.target.value, known)
            raise self.elaborator.fail(
                "RLC0101",
                f"on `{self.env.label}` nothing is called `{node.target.value}`",
                node.target.span,
                f"did you mean `{near}`?" if near else f"there are {', '.join(known)}",
            )
        return self._input(formula.name, part, node.name.value, node.span, formula.type)

    # ------------------------------------------------------------------------------------------------ the program

    def build(self) -> Formulas | None:
        """The program, or None after reporting."""
        rewards = [f for f in self.formulas if f.kind == "reward"]
        advantages = [f for f in self.formulas if f.kind == "advantage"]
        where = self.env.item.head.span
        for kind, found in (("reward", rewards), ("advantage", advantages)):
            if not found:
                self.report.append(
                    Diagnostic("RLC0502", f"env `{self.env.label}` has no {kind}", where,
                               label=f"declare `{kind} ...` for it")
                )  # fmt: skip
        before = sum(d.severity == "error" for d in self.report)
        wanted = [f for f in advantages if f.name == self.experiment.credit] or advantages
        for formula in [*wanted, *rewards, *self.formulas]:
            if formula.name in self.values or self._of_other_env(formula):
                continue
            used = set(self.used)
            try:
                self.named(formula)
            except Failed:
                continue
            finally:
                if formula not in wanted:
                    self.used = used
        if not rewards or not advantages or sum(d.severity == "error" for d in self.report) > before:
            return None
        self.used |= {wanted[0].name}
        return self._formulas(rewards, wanted[0])

    def _of_other_env(self, formula: Formula) -> bool:
        """A signal of a judge or user that is declared, but does not serve this environment."""
        node = formula.expression
        if formula.kind != "signal" or not (isinstance(node, tree.Member) and isinstance(node.target, tree.Name)):
            return False
        declared = {label for kind in ("user", "judge", "env") for label in self.experiment.of(kind)}
        return node.target.value in declared and self._part(node.target.value) is None

    def _formulas(self, rewards: list[Formula], advantage: Formula) -> Formulas | None:
        main = next((r for r in reversed(rewards) if self.values[r.name].level is Level.TRAJ), rewards[-1])
        outputs = {r.name: self.values[r.name].step for r in rewards}
        outputs[advantage.name] = self.values[advantage.name].step
        terms = []
        builder, scope = self.elaborator.builder, self.scope()
        for number, (sign, part) in enumerate(self.elaborator.term_texts(main.expression), start=1):
            quiet = len(self.report)
            step = self.elaborator.value(part, scope).step
            del self.report[quiet:]  # said already
            name = f"{main.name}_term{number}"
            outputs[name] = builder.apply("neg", step) if sign == "-" else step
            terms.append(TermPlan(output=name, text=f"{'- ' if sign == '-' else ''}{text_of(part)}"))
        for reward in rewards:
            self._constant(reward)
        program = builder.program(outputs)
        read = {i.name for i in program.inputs}
        return Formulas(
            env=self.env.label,
            user=self.users[0].label if self.users else None,
            judges=tuple(j.label for j in self.judges),
            program=program,
            signals=tuple(s for s in self.signals.values() if s.name in read),
            reward=main.name,
            advantage=advantage.name,
            advantage_level=self.values[advantage.name].level,
            terms=tuple(terms),
            ranges={f.name: _reach(self.values[f.name]) for f in [*rewards, advantage]},
            values={f.name: self.values[f.name] for f in [*rewards, advantage]},
            formulas={f.name: text_of(f.expression) for f in [*rewards, advantage]},
        )

    def _constant(self, reward: Formula) -> None:
        value = self.values[reward.name]
        if value.range.constant:
            self.report.append(
                Diagnostic(
                    "RLC0404",
                    f"reward `{reward.name}` is always {value.range.low:g}: nothing can be learned from it",
                    reward.expression.span,
                )
            )


def _reach(value: Value) -> str:
    kind = value.base if value.base in NUMERIC else "real"
    known = value.range if value.range != Range() else None
    return f"{kind}@{value.level.label}" + (f" in {known}" if known else "")


def elaborate(experiment: Experiment, report: list[Diagnostic]) -> list[Formulas]:
    """The programs of all environments, those that are sound."""
    seen: set[tuple[str, int | None, str]] = set()
    used: set[int] = set()
    out = []
    for env in experiment.of("env").values():
        own: list[Diagnostic] = []
        source = EnvFormulas(experiment, env, own)
        found = source.build()
        used |= {id(f) for f in source.formulas if f.name in source.used}
        for diagnostic in own:  # a formula shared by several environments is wrong once
            key = (diagnostic.code, diagnostic.span.start if diagnostic.span else None, diagnostic.message)
            if key not in seen:
                seen.add(key)
                report.append(diagnostic)
        if found is not None:
            out.append(found)
    if out and len(out) == len(experiment.of("env")):
        _unused([f for f in experiment.formulas if id(f) not in used], report)
    return out


def _unused(formulas: list[Formula], report: list[Diagnostic]) -> None:
    """A reward or advantage that reaches no token is an error; a signal or let that nothing reads a warning."""
    for formula in formulas:
        severity: Severity = "error" if formula.kind in ("reward", "advantage") else "warning"
        reader = "credit" if formula.kind == "advantage" else "advantage"
        reason = f"{formula.kind} `{formula.name}` reaches no {reader}"
        report.append(Diagnostic("RLC0503", reason, formula.item.head.span, severity=severity))
