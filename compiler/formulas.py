"""Formulas of one source of trajectories: its signals, rewards and advantage as one program.

Every environment of a mix has a program of its own, because its rewards, its judge and its group statistics are its
own; a formula without `on` belongs to all of them. So have the trajectories that a stage samples again (`on fission`):
what is not said for them is as it is for their environment.
"""

from __future__ import annotations

from rlspec.compiler.builder import Value
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.elaborate import Failed, Scope
from rlspec.compiler.experiment import Declared, Experiment, Formula
from rlspec.compiler.failures import failures
from rlspec.compiler.flatten import flattened
from rlspec.compiler.levels import Level
from rlspec.compiler.library import over_standard
from rlspec.compiler.measures import Inputs
from rlspec.compiler.plan import SignalPlan, TermPlan
from rlspec.compiler.program import Program
from rlspec.compiler.ranges import Range
from rlspec.compiler.static import Quantity
from rlspec.compiler.types import NUMERIC
from rlspec.compiler.units import RATIOS
from rlspec.dsl import tree
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Diagnostic, Severity
from rlspec.dsl.printer import text_of

WHERE = "credit.where"
"""The result that says which tokens carry the advantage. No formula can be called so."""
RETURNS = "critic.returns"
"""The result that a critic learns."""


@dataclass(slots=True)
class Formulas:
    """One source's formulas, elaborated. `stage` is the stage that samples its trajectories again; `where` the result
    that restricts the credit, if one does."""

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
    stage: str | None = None
    where: str | None = None
    returns: str | None = None

    @property
    def name(self) -> str:
        """What formulas of this source alone are `on`."""
        return self.stage or self.env

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """What its formulas may be `on`, the nearest first."""
        return tuple(dict.fromkeys((self.name, self.env, None)))


class EnvFormulas(Inputs):
    """Elaborates the formulas of one environment, or those of the trajectories that a stage samples again on it."""

    def __init__(
        self, experiment: Experiment, env: Declared, report: list[Diagnostic], stage: Declared | None = None
    ) -> None:
        super().__init__(experiment, env, report)
        self.stage = stage
        self.values: dict[str, Value] = {}
        self.used: set[str] = set()
        own = {f.name for f in experiment.formulas if stage is not None and f.on == stage.label}
        self.formulas = [
            f for f in experiment.formulas
            if (f.on in (None, env.label) and f.name not in own) or (stage is not None and f.on == stage.label)
        ]  # fmt: skip
        self._pending: set[str] = set()
        self._scope: Scope | None = None
        training = [s for d in experiment.of("stage").values() if isinstance(s := d.component, Grpo)]
        lengths = {s.steps for s in training}
        self.elaborator.horizon = max(1, lengths.pop() - 1) if len(lengths) == 1 else None

    # --------------------------------------------------------------------------------------------------- scope

    def scope(self) -> Scope:
        """What names mean in these formulas."""
        if self._scope is not None:
            return self._scope
        names = {f.name: (lambda f=f: self.named(f)) for f in self.formulas}
        for name, leaf in self.experiment.params.items():
            if isinstance(leaf.value, Quantity):
                unit = "" if leaf.value.unit in RATIOS else leaf.value.unit
                names.setdefault(name, replace(self.elaborator.constant(leaf.value.value), unit=unit))  # type: ignore[arg-type]
        definitions = over_standard(self.experiment.definitions)
        self._scope = Scope(names, definitions, self.measure, self.table)
        return self._scope

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
            return self.signal(formula)
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

    # ------------------------------------------------------------------------------------------------ the program

    def build(self) -> Formulas | None:
        """The program, or None after reporting."""
        rewards = [f for f in self.formulas if f.kind == "reward"]
        advantages = [f for f in self.formulas if f.kind == "advantage"]
        place = self.env.item.head.span
        for kind, found in (("reward", rewards), ("advantage", advantages)):
            if not found:
                self.report.append(
                    Diagnostic("RLC0502", f"env `{self.env.label}` has no {kind}", place,
                               label=f"declare `{kind} ...` for it")
                )  # fmt: skip
        before = sum(d.severity == "error" for d in self.report)
        wanted = [f for f in advantages if f.name == self.experiment.credit] or advantages
        credited = self._credited()
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
        return self._formulas(rewards, wanted[0], credited)

    def _credited(self) -> int | None:
        """The step that says which tokens carry the advantage, where the spec restricts them."""
        condition = self.experiment.credit_where
        if condition is None:
            return None
        try:
            return self.elaborator.boolean(condition, self.scope()).step
        except Failed:
            return None

    def _of_other_env(self, formula: Formula) -> bool:
        """A signal of a judge or user that is declared, but does not serve this environment."""
        node = formula.expression
        if formula.kind != "signal" or not (isinstance(node, tree.Member) and isinstance(node.target, tree.Name)):
            return False
        declared = {label for kind in ("user", "judge", "env") for label in self.experiment.of(kind)}
        return node.target.value in declared and self.part(node.target.value) is None

    def _formulas(self, rewards: list[Formula], advantage: Formula, credited: int | None) -> Formulas | None:
        main = next((r for r in reversed(rewards) if self.values[r.name].level is Level.TRAJ), rewards[-1])
        outputs = {r.name: self.values[r.name].step for r in rewards}
        outputs[advantage.name] = self.values[advantage.name].step
        terms = []
        builder, scope = self.elaborator.builder, self.scope()
        flat = flattened(self.experiment)  # texts as in the resolved spec, which has no other files
        for number, (sign, part) in enumerate(self.elaborator.term_texts(main.expression), start=1):
            quiet = len(self.report)
            step = self.elaborator.value(part, scope).step
            del self.report[quiet:]  # said already
            name = f"{main.name}_term{number}"
            outputs[name] = builder.apply("neg", step) if sign == "-" else step
            terms.append(TermPlan(output=name, text=f"{'- ' if sign == '-' else ''}{text_of(flat.expression(part))}"))
        if credited is not None:
            outputs[WHERE] = credited
        outputs |= self._returns(outputs[advantage.name], advantage)
        outputs |= failures(
            self.experiment, self.env, self.elaborator, self.formulas, self.named, self.values[main.name]
        )
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
            advantage_level=builder.level(outputs[advantage.name]),  # a declaration may say a finer one
            terms=tuple(terms),
            ranges={f.name: _reach(self.values[f.name]) for f in [*rewards, advantage]},
            values={f.name: self.values[f.name] for f in [*rewards, advantage]},
            formulas={f.name: text_of(flat.expression(f.expression)) for f in [*rewards, advantage]},
            stage=self.stage.label if self.stage else None,
            where=WHERE if credited is not None else None,
            returns=RETURNS if RETURNS in outputs else None,
        )

    def _returns(self, advantage: int, formula: Formula) -> dict[str, int]:
        """What a critic learns where a stage has one: the one `gae` of its value that the advantage is made of, before
        any whitening, plus the value."""
        builder = self.elaborator.builder
        critics = [d.label for d in self.experiment.of("stage").values() if d.name == "ppo"]
        measured = {s.name for s in self.signals.values() if s.measure in {f"{label}.value" for label in critics}}
        found = []
        for at in sorted(builder.needed([advantage])):
            step = builder.steps[at]
            if step.op == "gae" and builder.steps[step.args[1]].attrs.get("name") in measured:
                found.append(at)
        if critics and len(found) != 1:
            count = f"{len(found)} different" if found else "no"
            where = (self.stage or self.env).label
            self.report.append(
                Diagnostic(
                    "RLC0534",
                    f"`{critics[0]}` has a critic, and the advantage on `{where}` has {count} `gae` of its values",
                    formula.expression.span,
                    label=f"one is needed, as in `std.ppo(R, {critics[0]}.value)`",
                )
            )
        if len(found) != 1:
            return {}
        return {RETURNS: builder.apply("add", found[0], builder.steps[found[0]].args[1])}

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


def sources_of(experiment: Experiment) -> list[tuple[Declared, Declared | None]]:
    """Every source of trajectories: each environment, then each environment under each stage that samples again."""
    envs = experiment.of("env")
    out: list[tuple[Declared, Declared | None]] = [(env, None) for env in envs.values()]
    for stage in experiment.of("stage").values():
        if getattr(stage.schema, "RIDES", False):
            chosen = getattr(stage.component, "on", ()) or envs
            out += [(env, stage) for label, env in envs.items() if label in chosen]
    return out


def elaborate(experiment: Experiment, report: list[Diagnostic]) -> list[Formulas]:
    """The programs of all sources, those that are sound."""
    seen: set[tuple[str, int | None, str]] = set()
    used: set[int] = set()
    out = []
    sources = sources_of(experiment)
    for env, stage in sources:
        own: list[Diagnostic] = []
        source = EnvFormulas(experiment, env, own, stage)
        found = source.build()
        used |= {id(f) for f in source.formulas if f.name in source.used}
        for diagnostic in own:  # a formula shared by several environments is wrong once
            key = (diagnostic.code, diagnostic.span.start if diagnostic.span else None, diagnostic.message)
            if key not in seen:
                seen.add(key)
                report.append(diagnostic)
        if found is not None:
            out.append(found)
    if out and len(out) == len(sources):
        _unused([f for f in experiment.formulas if id(f) not in used], report)
    return out


def _unused(formulas: list[Formula], report: list[Diagnostic]) -> None:
    """A reward or advantage that reaches no token is an error; a signal or let that nothing reads a warning."""
    for formula in formulas:
        severity: Severity = "error" if formula.kind in ("reward", "advantage") else "warning"
        reader = "credit" if formula.kind == "advantage" else "advantage"
        reason = f"{formula.kind} `{formula.name}` reaches no {reader}"
        report.append(Diagnostic("RLC0503", reason, formula.item.head.span, severity=severity))
