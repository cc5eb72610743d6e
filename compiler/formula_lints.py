"""Lints over reward and advantage: read off the program, where every choice that libraries hide is an attribute.

They share the rules of `rlspec.compiler.lints`, which calls them for each environment.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.elaborate import Failed
from rlspec.compiler.experiment import Declared, Experiment, Formula
from rlspec.compiler.formulas import EnvFormulas, Formulas, sources_of
from rlspec.compiler.functions import PROVENANCE
from rlspec.compiler.levels import Level
from rlspec.compiler.measures import measure_type
from rlspec.compiler.pools import pool
from rlspec.compiler.program import CROSSING, Step
from rlspec.compiler.ranges import Range, number_text
from rlspec.compiler.static import Quantity
from rlspec.dsl import tree
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic

STATE_MATCHES = ("verified", "db_hash")
TEXT_MATCHES = ("outputs_said",)


def _all_of(step: Step) -> bool:
    return True


class Scored:
    """One environment's formulas, with what they read."""

    def __init__(self, experiment: Experiment, source: Formulas) -> None:
        self.experiment, self.source = experiment, source
        self.steps = source.program.steps
        self.measures = {s.name: s.measure for s in source.signals}
        self._reached: dict[str, list[Step]] = {}

    def formula(self, kind: str, name: str) -> Formula | None:
        """The declaration of a reward or advantage of this environment."""
        found = {f.on: f for f in self.experiment.formulas if (f.kind, f.name) == (kind, name)}
        return next((found[on] for on in self.source.scopes if on in found), None)

    def span(self, kind: str, name: str) -> tree.Span:
        """Where its expression stands."""
        found = self.formula(kind, name)
        return found.expression.span if found else self.experiment.item.head.span

    @property
    def advantage(self) -> tree.Span:
        return self.span("advantage", self.source.advantage)

    @property
    def reward(self) -> tree.Span:
        return self.span("reward", self.source.reward)

    def reached(self, output: str, through: Callable[[Step], bool] = _all_of) -> list[Step]:
        """The steps that an output depends on; what lies behind a step that `through` refuses is left out."""
        if through is _all_of and output in self._reached:
            return self._reached[output]
        seen: set[int] = set()
        stack = [self.source.program.outputs[output]]
        while stack:
            at = stack.pop()
            if at not in seen and through(self.steps[at]):
                seen.add(at)
                stack.extend(self.steps[at].args)
        found = [self.steps[at] for at in sorted(seen)]
        if through is _all_of:
            self._reached[output] = found
        return found

    def read(self, steps: list[Step]) -> set[str]:
        """`label.measure` of every signal among the steps; the policy's own KL is not one."""
        names = {self.measures.get(s.attrs["name"], "") for s in steps if s.op == "input"}
        return {m for m in names if m and not m.startswith("policy.")}

    def groups(self) -> list[int]:
        """The group sizes of the training stages."""
        made = [d.component for d in self.experiment.of("stage").values()]
        return [c.group for c in made if isinstance(c, Grpo)]


def _is_noisy(judge: Declared) -> bool:
    """Whether its verdicts are those of a model, or of an oracle with declared mistakes."""
    made = judge.component
    if judge.name == "oracle" and made is not None:
        return getattr(made, "flip", 0) + getattr(made, "cascade", 0) > 0
    return judge.name == "llm" and made is not None


def _judge_per_turn(scored: Scored) -> Iterator[Diagnostic]:
    def keeps_turns(step: Step) -> bool:
        return step.op != "reduce" or step.level in ("turn", "token")

    source = scored.source
    if source.advantage_level < Level.TURN:
        return
    for measure in sorted(scored.read(scored.reached(source.advantage, keeps_turns))):
        label, _, name = measure.partition(".")
        judge = scored.experiment.of("judge").get(label)
        if judge is None or not _is_noisy(judge):
            continue
        if measure_type(judge.schema.MEASURES[name]).level >= Level.TURN:
            yield Diagnostic("RLC0506", f"the verdicts of `{label}` reach single turns, with their errors",
                             scored.advantage, "warning",
                             "collapse them in the reward: any, sum, mean (... over turn)",
                             ("TARL (arXiv:2509.14480) gives a trajectory one number, and reports that its per-turn "
                              "variants were unstable",))  # fmt: skip


def _unchecked_tiers(scored: Scored) -> Iterator[Diagnostic]:
    """Turns are paid by their kind from numbers that no stage found and no note explains."""
    source = scored.source
    if source.advantage_level < Level.TURN:
        return
    found = {getattr(d.component, "signal", "") for d in scored.experiment.of("stage").values() if d.schema.RESULTS}
    reached = scored.reached(source.advantage, lambda step: step.op != "reduce" or step.level in ("turn", "token"))
    read = {s.attrs["name"] for s in reached if s.op == "input"}
    for signal in source.signals:
        kind = scored.formula("signal", signal.name)
        if kind is None or (signal.kind, signal.level) != ("code", "turn") or signal.name not in read - found:
            continue
        paying = [f for f in scored.experiment.formulas if f.on in source.scopes and f.kind != "signal"]
        paying = [f for f in paying if any(_is_named(n, signal.name) for n in _parts(f.expression))]
        if paying and not any(_is_called(n, PROVENANCE) for f in paying for n in _parts(f.expression)):
            yield Diagnostic("RLC0535", f"turns are paid by `{signal.name}`, and nobody has compared this pay with "
                             "outcomes", paying[0].expression.span, "warning",
                             f"find it by `stage calibrate : irc {{ signal = {signal.name} ... }}`",
                             ("MT-GRPO + IRC (arXiv:2604.02869) paid for reads and for any write at first, and these "
                              "did not go with success",))  # fmt: skip


def _groups_of_two(scored: Scored) -> Iterator[Diagnostic]:
    steps = scored.reached(scored.source.advantage)
    grouped = any(s.op == "normalise" and s.attrs["fn"] == "zscore" and s.attrs["axes"] == ["traj"] for s in steps)
    if grouped and 2 in scored.groups():
        yield Diagnostic("RLC0509", "in a group of two every z-score is the same number: how far the rewards lie apart "
                         "is lost", scored.advantage, "warning", "use larger groups, or `center`")  # fmt: skip


def _text_beside_state(scored: Scored) -> Iterator[Diagnostic]:
    names = {m.partition(".")[2] for m in scored.read(scored.reached(scored.source.reward))}
    texts = [t for t in TEXT_MATCHES if t in names]
    if texts and names & set(STATE_MATCHES):
        yield Diagnostic("RLC0510", f"`{texts[0]}` compares texts, beside a match of the final state",
                         scored.reward, "warning", "reward the state alone",
                         ("MUA-RL (arXiv:2508.18669) trains without the text, which can be recited",))  # fmt: skip


def _failure_above_success(scored: Scored) -> Iterator[Diagnostic]:
    """The reward's range with the outcome held at 0, and at 1, from two further elaborations."""
    outcome = next((n for n, m in scored.measures.items() if m == f"{scored.source.env}.verified"), None)
    formula = scored.formula("signal", outcome) if outcome else None
    reward = scored.formula("reward", scored.source.reward)
    if formula is None or reward is None or len(scored.read(scored.reached(scored.source.reward))) < 2:
        return
    failed, solved = (_held(scored, formula, value) for value in (0.0, 1.0))
    if failed is None or solved is None or failed.high <= solved.low + 1e-9:
        return
    yield Diagnostic("RLC0520", f"a failed trajectory can earn {number_text(round(failed.high, 6))}, a solved one as "
                     f"little as {number_text(round(solved.low, 6))}", scored.reward, "warning",
                     f"let `{formula.name}` outweigh the other terms")  # fmt: skip


def _held(scored: Scored, signal: Formula, value: float) -> Range | None:
    """The reward's range where the signal has this value; None where it is not a reward per trajectory."""
    span = signal.expression.span
    fixed = replace(signal, kind="let", expression=tree.Number(value, "", True, number_text(value), span))
    formulas = [fixed if f is signal else f for f in scored.experiment.formulas]
    experiment, source = replace(scored.experiment, formulas=formulas), scored.source
    stage = experiment.of("stage")[source.stage] if source.stage else None
    again = EnvFormulas(experiment, experiment.of("env")[source.env], [], stage)
    reward = next(f for f in again.formulas if (f.kind, f.name) == ("reward", source.reward))
    try:
        found = again.named(reward)  # and what it needs, nothing else
    except Failed:
        return None
    return found.range if found.level is Level.TRAJ else None


def _no_baseline(scored: Scored) -> Iterator[Diagnostic]:
    for step in scored.reached(scored.source.advantage):
        across = step.op == "reduce" and {"traj", "group"} & set(step.attrs["axes"])
        if across or step.op in ("normalise", "gae"):
            return
    if scored.groups():
        yield Diagnostic("RLC0522", "the advantage compares a trajectory with no other: it has no baseline",
                         scored.advantage, "warning", "e.g. `std.grpo(R)` or `std.rloo(R)`")  # fmt: skip


def _judged_alone(scored: Scored) -> Iterator[Diagnostic]:
    read = scored.read(scored.reached(scored.source.advantage))
    judges = {n for n, d in scored.experiment.of("judge").items() if not getattr(d.schema, "BY_RULE", False)}
    if read and all(m.partition(".")[0] in judges for m in read):
        yield Diagnostic("RLC0528", "only a judge decides: nothing that the environment verifies reaches the advantage",
                         scored.reward, "warning", "add the outcome, e.g. `env.verified`")  # fmt: skip


def _raw_singleton(scored: Scored) -> Iterator[Diagnostic]:
    steps = scored.reached(scored.source.advantage)
    if any(s.op == "normalise" and s.attrs.get("singleton") == "raw" for s in steps):
        yield Diagnostic("RLC0902", "a trajectory that is left alone in its group gets its raw reward as advantage",
                         scored.advantage, "note", "`singleton = zero` gives it no say")  # fmt: skip


def _step_of_one_source(scored: Scored) -> Iterator[Diagnostic]:
    """Statistics over a whole step, where several sources share it."""
    across = [s for s in scored.reached(scored.source.advantage) if s.op in CROSSING and s.level != "const"]
    if len(sources_of(scored.experiment)) > 1 and any(pool(s).scope <= Level.STEP for s in across):
        message = f"statistics of the step are those of `{scored.source.name}` alone: they never cross sources"
        hint = "meant for all together, it needs one environment"
        yield Diagnostic("RLC0531", message, scored.advantage, "note", hint)


def _length_in_the_outcome(scored: Scored) -> Iterator[Diagnostic]:
    """A discount to the power of the turns that are left: of two equal outcomes the shorter one is worth more."""
    steps = scored.steps
    counted = {n for n, s in enumerate(steps) if s.op == "num" and s.attrs["axis"] == "turn"}
    for n, step in enumerate(steps):  # arguments stand before what they are used in
        if any(a in counted for a in step.args) and step.op in ("add", "sub", "mul", "div", "neg"):
            counted.add(n)
    reached = scored.reached(scored.source.advantage)
    if not any(s.op == "normalise" for s in reached):
        return
    for step in reached:
        base = steps[step.args[0]] if step.op == "pow" and step.args[1] in counted else None
        if base is None or base.op != "const" or base.attrs["value"] == 1.0:
            continue
        gamma = float(base.attrs["value"])
        if not _sourced(scored, gamma):
            yield Diagnostic("RLC0532", f"with a discount of {number_text(gamma)} two equal outcomes after different "
                             "numbers of turns are not equal: the shorter one is preferred", scored.advantage, "note",
                             "a discount of 1 treats them alike")  # fmt: skip
        return


def _sourced(scored: Scored, value: float) -> bool:
    """Whether a number of the advantage's formula says where it comes from."""
    formula = scored.formula("advantage", scored.source.advantage)
    named = scored.experiment.params.values()
    if any(isinstance(p.value, Quantity) and p.value.value == value and p.origin.kind in PROVENANCE for p in named):
        return True
    return formula is not None and any(_says(node, value) for node in _parts(formula.expression))


def _is_named(node: tree.Expression, name: str) -> bool:
    return isinstance(node, tree.Name) and node.value == name


def _is_called(node: tree.Expression, names: Container[str]) -> bool:
    return isinstance(node, tree.Call) and isinstance(node.function, tree.Name) and node.function.value in names


def _says(node: tree.Expression, value: float) -> bool:
    if not isinstance(node, tree.Call) or not _is_called(node, PROVENANCE):
        return False
    number = node.arguments[0].value
    return isinstance(number, tree.Number) and number.value == value


def _parts(node: tree.Expression) -> Iterator[tree.Expression]:
    """An expression and everything in it."""
    yield node
    match node:
        case tree.Call():
            inner = [a.value for a in node.arguments]
        case tree.Binary():
            inner = [node.left, node.right]
        case tree.Unary():
            inner = [node.operand]
        case tree.Conditional():
            inner = [node.condition, node.yes, node.no]
        case _:
            inner = []
    for part in inner:
        yield from _parts(part)


FORMULA_LINTS: tuple[Callable[[Scored], Iterator[Diagnostic]], ...] = (
    _judge_per_turn,
    _unchecked_tiers,
    _groups_of_two,
    _text_beside_state,
    _failure_above_success,
    _no_baseline,
    _judged_alone,
    _raw_singleton,
    _step_of_one_source,
    _length_in_the_outcome,
)
