"""How much an experiment does: trajectories, tokens, and calls of users, judges and tools, per step and in all.

All numbers are upper bounds that the declarations guarantee: every dialogue as long as its limits allow, every task of
a mix from the environment that costs most. What is likely depends on the policy, which nobody has run yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlspec.compiler.plan import BudgetPlan, ComponentPlan, Plan, SourcePlan, StagePlan
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass

OWN_PROMPT = 1024
"""Tokens of instructions that a simulated user or a judge reads beside the dialogue (an assumption; said with the
figures)."""
SEEN_BESIDE = {"instruction": 1024, "gold_calls": 1024}
"""Tokens of what a judge is shown and the agent is not (an assumption, too). The policy text is part of the agent's
context."""
EXCERPT = 1024
"""Tokens of a tool's schema and of the database's excerpt that a model reads which plays the tool (an assumption)."""
REPLY = 1024
"""Tokens of an answer where the component declares no limit (an assumption)."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one user, judge or set of tools. `number` and the tokens are per step, at most; `expected` is the number
    when every source gets its share of the tasks. `tries` is how often one call may be made if it keeps failing.
    `model` is empty for what runs here and costs nothing."""

    kind: str
    label: str
    model: str
    number: int
    expected: float
    reads: int = 0
    writes: int = 0
    tries: int = 1


@dataclass(frozen=True, slots=True)
class StageLoad:
    """One stage. `steps` counts all of them, of an evaluation all its runs; the other numbers are per step. Of a
    trajectory's tokens at most `sampled` are the agent's own, at most `shown` are read by it, and both together are at
    most `tokens`. `learned` carry the loss; `passes` are forward passes of the trainer over a trajectory beside the
    update's own (a reference for the KL)."""

    stage: str
    name: str
    steps: int
    trajectories: int
    tokens: int
    sampled: int
    shown: int
    learned: int
    passes: int
    calls: tuple[Calls, ...]


@dataclass(frozen=True, slots=True)
class Typical:
    """Dialogues of so many messages of the agent and so many tokens, where the bounds allow them: for an estimate of
    what is likely, by somebody who has seen such dialogues."""

    turns: int
    tokens: int


def loads(plan: Plan, typical: Typical | None = None) -> list[StageLoad]:
    """Every stage of the plan, in its order: bounds, or what `typical` dialogues give."""
    budgets = {budget.stage: budget for budget in plan.budget}
    return [_Loader(plan, s, budgets[s.label], typical).load() for s in plan.stages if s.label in budgets]


class _Loader:
    """The load of one stage."""

    def __init__(self, plan: Plan, stage: StagePlan, budget: BudgetPlan, typical: Typical | None) -> None:
        self.plan, self.stage, self.budget, self.typical = plan, stage, budget, typical
        reads = int(stage.fields["context"]) if stage.name == "diagnostician" else context_of(plan)
        self.context = min(reads, typical.tokens) if typical is not None else reads
        self.message = int(stage.fields.get("max_new_tokens", 0)) or self._message_inside() or self.context

    def load(self) -> StageLoad:
        fields, count = self.stage.fields, self.budget.trajectories
        generates = self.stage.name not in ("sft", "diagnostician")
        longest = max((self.turns(env) for env in self.plan.envs), default=1)
        sampled = min(self.context, longest * self.message) * count if generates else 0
        learns = "lr" in fields or "within" in fields  # what rides on a stage is learned from with it
        return StageLoad(
            stage=self.stage.label,
            name=self.stage.name,
            steps=self.budget.steps * _runs(self.plan, self.stage),
            trajectories=count,
            tokens=self.context * count,
            sampled=sampled,
            shown=(self.context - 1) * count if generates else 0,
            learned=(sampled if generates else self.context * count) if learns else 0,
            passes=1 if learns and (fields.get("kl") or {}).get("coefficient", 0) > 0 else 0,
            calls=tuple(self._calls()) if generates and count else (),
        )

    def turns(self, env: ComponentPlan) -> int:
        """Messages of the agent in one dialogue at most; an environment without such a limit asks once."""
        declared = int(env.fields.get("max_turns", 1) or 1)
        return min(declared, self.typical.turns) if self.typical is not None else declared

    def _message_inside(self) -> int:
        """Longest message of the agent in a stage that does not say: that of the stage that it rides on."""
        inside = self.stage.fields.get("within")
        return next((int(s.fields.get("max_new_tokens", 0)) for s in self.plan.stages if s.label == inside), 0)

    def _calls(self) -> Iterator[Calls]:
        drawn = self._drawn()
        for user in self.plan.users:
            served = {s.env: share for s, share in drawn if self._user(s) == user.label}
            if served:
                yield self._of_user(user, served)
        for judge in self.plan.judges:
            judged = {s.env: share for s, share in drawn if judge.label in s.judges}
            if judged:  # whatever converses is judged, evaluations too
                yield self._of_judge(judge, judged)
        diagnostician = (self.stage.fields.get("feedback") or {}).get("llm") or {}
        if diagnostician.get("model"):
            yield self._of_diagnostician(diagnostician)
        envs = {env.label: env for env in self.plan.envs}
        played = {s.env: share for s, share in drawn if envs[s.env].fields.get("model")}
        for label, share in played.items():
            yield self._of_player(envs[label], share)
        with_tools = {
            s.env: self.turns(envs[s.env])
            for s, _ in drawn
            if "max_turns" in envs[s.env].fields and s.env not in played
        }
        if with_tools:
            shares = {s.env: share for s, share in drawn if s.env in with_tools}
            yield self._made("tools", "tools", with_tools, shares)

    def _drawn(self) -> list[tuple[SourcePlan, float]]:
        """The sources that the stage has tasks of, and their shares: an evaluation has as many of each."""
        if self.stage.name != "evaluate":
            return [(s, s.share) for s in self.plan.sources if s.share > 0]
        examined = self.plan.examined(self.stage.fields.get("on", ()))
        return [(s, 1 / len(examined)) for s in examined]

    def _user(self, source: SourcePlan) -> str | None:
        """Who talks to the agent here: an evaluation may have an examiner."""
        examiner = str(self.stage.fields.get("user", ""))
        return examiner if self.plan.examines(examiner, source.env) else source.user

    def _made(
        self,
        kind: str,
        label: str,
        per_env: Mapping[str, int],
        shares: Mapping[str, float],
        part: ComponentPlan | None = None,
        reads: int = 0,
        writes: int = 0,
    ) -> Calls:
        """Calls of all trajectories, from those of one by environment; tokens are those of one trajectory at most."""
        count = self.budget.trajectories
        model = str(part.fields.get("model", "")) if part is not None else ""
        return Calls(
            kind, label, model,
            number=max(per_env.values()) * count,
            expected=sum(shares[env] * number for env, number in per_env.items()) * count,
            reads=reads * count if model else 0,
            writes=writes * count if model else 0,
            tries=1 + _retries(part) if part is not None else 1,
        )  # fmt: skip

    def _of_user(self, user: ComponentPlan, served: Mapping[str, float]) -> Calls:
        """An opening, and a reply to every message of the agent that calls no tool: at most to all of them."""
        limit = self._answer(user)
        per_env = {env: 1 + self._replies(self.plan.labelled(env), user) for env in served}
        most = max(per_env.values())
        reads = sum(self._prefix(i, self.message + limit) for i in range(most))
        return self._made("user", user.label, per_env, served, user, reads, most * limit)

    def _replies(self, env: ComponentPlan, user: ComponentPlan) -> int:
        if user.name == "static":
            return 0
        events = int(env.fields.get("max_events", 0) or 0)
        return min(self.turns(env), events) if events else self.turns(env)

    def _of_player(self, env: ComponentPlan, share: float) -> Calls:
        """A model that plays the tools: asked once per call, at most for every message of the agent, and shown the
        calls before it."""
        limit = self._answer(env)
        events = int(env.fields.get("max_events", 0) or 0)
        most = min(self.turns(env), events) if events else self.turns(env)
        reads = sum(EXCERPT + self._prefix(i, self.message + limit) for i in range(most))
        return self._made("tools", env.label, {env.label: most}, {env.label: share}, env, reads, most * limit)

    def _of_judge(self, judge: ComponentPlan, judged: Mapping[str, float]) -> Calls:
        """One call for a whole trajectory, or one for every turn of it; tools and users stand in what it reads."""
        limit = self._answer(judge)
        live = judge.fields.get("when") == "during_rollout"
        per_env = {env: self.turns(self.plan.labelled(env)) if live else 1 for env in judged}
        most = max(per_env.values())
        beside = sum(SEEN_BESIDE.get(part, 0) for part in judge.fields.get("sees", ()))
        exchanges = range(1, most + 1) if live else (self.context,)
        reads = sum(self._prefix(i, self.message + limit) + beside for i in exchanges)
        return self._made("judge", judge.label, per_env, judged, judge, reads, most * limit)

    def _of_diagnostician(self, llm: Mapping[str, Any]) -> Calls:
        """One call per recovery group; `tries` are the drafts that it may write, each as often as it may be tried."""
        number, limit = int(self.stage.fields["groups"]), int(llm["max_new_tokens"])
        beside = sum(SEEN_BESIDE.get(part, 0) for part in llm["sees"])
        return Calls(
            "diagnostician", self.stage.label, str(llm["model"]),
            number=number,
            expected=float(number),
            reads=number * (OWN_PROMPT + self.context + beside),
            writes=number * limit,
            tries=int(llm["drafts"]) * (1 + int(llm["retries"])),
        )  # fmt: skip

    def _answer(self, part: ComponentPlan) -> int:
        """Tokens of an answer at most; in a typical dialogue no more than its tokens allow to each turn."""
        limit = int(part.fields.get("max_new_tokens", REPLY))
        if self.typical is not None and part.kind == "user":
            return min(limit, max(1, self.typical.tokens // max(1, 2 * self.typical.turns)))
        return limit

    def _prefix(self, exchanges: int, exchange: int) -> int:
        """Tokens that are read after so many exchanges of a dialogue that cannot outgrow its context."""
        return OWN_PROMPT + min(self.context, exchanges * exchange)


def _runs(plan: Plan, stage: StagePlan) -> int:
    """How often a stage takes place: an evaluation before and after each stage that it names, and inside where that
    says `evaluate_every`; alone, once."""
    if stage.name != "evaluate":
        return 1
    before, after = stage.fields.get("before", ()), stage.fields.get("after", ())
    inside = 0
    for other in plan.stages:
        every = int(other.fields.get("evaluate_every", 0) or 0)
        if other.label in after and every:
            inside += (int(other.fields["steps"]) - 1) // every
    return max(1, len(before) + len(after)) + inside


def context_of(plan: Plan) -> int:
    """Tokens of the longest trajectory: what the policy reads at most, and no environment's limit below it."""
    policy = int(plan.policy.fields.get("context", 0))
    envs = [int(env.fields.get("context", policy)) for env in plan.envs]
    return min(policy, max(envs, default=policy)) if policy else max(envs, default=0)


def _retries(part: ComponentPlan) -> int:
    rules = part.wiring.get("on_failure", [])
    return next((int(rule["retry"][0]) for rule in rules if isinstance(rule, dict) and "retry" in rule), 0)
