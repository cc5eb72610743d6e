"""How much an experiment does: trajectories, tokens, and calls of users, judges and tools, per step and in all.

All numbers are upper bounds that the declarations guarantee: every dialogue as long as its limits allow, every task of
a mix from the environment that costs most. What is likely depends on the policy, which nobody has run yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlspec.compiler.plan import BudgetPlan, ComponentPlan, Plan, SourcePlan, StagePlan

OWN_PROMPT = 1024
"""Tokens of instructions that a simulated user or a judge reads beside the dialogue (an assumption; said with the
figures)."""
SEEN_BESIDE = {"instruction": 1024, "gold_calls": 1024}
"""Tokens of what a judge is shown and the agent is not (an assumption, too). The policy text is part of the agent's
context."""
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


def loads(plan: Plan) -> list[StageLoad]:
    """Every stage of the plan, in its order."""
    budgets = {budget.stage: budget for budget in plan.budget}
    return [_load(plan, stage, budgets[stage.label]) for stage in plan.stages if stage.label in budgets]


def _load(plan: Plan, stage: StagePlan, budget: BudgetPlan) -> StageLoad:
    fields = stage.fields
    context = context_of(plan)
    message = int(fields.get("max_new_tokens", 0)) or _message(plan, stage)
    generates = stage.name != "sft"
    own = min(context, turns_of(plan) * message) if generates and message else context
    sampled = own * budget.trajectories if generates else 0
    learns = "lr" in fields
    return StageLoad(
        stage=stage.label,
        name=stage.name,
        steps=budget.steps * _runs(plan, stage),
        trajectories=budget.trajectories,
        tokens=context * budget.trajectories,
        sampled=sampled,
        shown=(context - 1) * budget.trajectories if generates else 0,
        learned=(sampled if generates else context * budget.trajectories) if learns else 0,
        passes=1 if learns and (fields.get("kl") or {}).get("coefficient", 0) > 0 else 0,
        calls=tuple(_calls(plan, stage, budget, message or context)) if generates else (),
    )


def _message(plan: Plan, stage: StagePlan) -> int:
    """Longest message of the agent in a stage that does not say: that of the stage that it rides on."""
    inside = fields.get("within") if (fields := stage.fields) else None
    return next((int(s.fields.get("max_new_tokens", 0)) for s in plan.stages if s.label == inside), 0)


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


def turns_of(plan: Plan) -> int:
    return max((_turns(env) for env in plan.envs), default=1)


def _turns(env: ComponentPlan) -> int:
    """Messages of the agent in one dialogue at most; an environment without such a limit asks once."""
    return int(env.fields.get("max_turns", 1) or 1)


def _calls(plan: Plan, stage: StagePlan, budget: BudgetPlan, message: int) -> Iterator[Calls]:
    drawn = [source for source in plan.sources if source.share > 0]
    context = context_of(plan)
    for user in plan.users:
        served = [s for s in drawn if s.user == user.label]
        if served:
            yield _of_user(plan, user, served, budget, context, message)
    for judge in plan.judges:
        judged = [s for s in drawn if judge.label in s.judges]
        if judged:  # whatever converses is judged, evaluations too
            yield _of_judge(plan, judge, judged, budget, context, message)
    envs = {env.label: env for env in plan.envs}
    with_tools = [s for s in drawn if "max_turns" in envs[s.env].fields]
    if with_tools:
        turns = [_turns(envs[s.env]) for s in with_tools]
        share = sum(s.share * n for s, n in zip(with_tools, turns, strict=True))
        yield Calls("tools", "tools", "", max(turns) * budget.trajectories, share * budget.trajectories)


def _of_user(
    plan: Plan, user: ComponentPlan, served: list[SourcePlan], budget: BudgetPlan, context: int, message: int
) -> Calls:
    """An opening, and a reply to every message of the agent that calls no tool: at most to all of them."""
    model = str(user.fields.get("model", ""))
    limit = int(user.fields.get("max_new_tokens", REPLY))
    per_env = {s.env: 1 + _replies(plan.labelled(s.env), user) for s in served}
    most = max(per_env.values())
    reads = sum(_prefix(i, message + limit, context) for i in range(most)) if model else 0
    count = budget.trajectories
    return Calls(
        "user", user.label, model,
        number=most * count,
        expected=sum(s.share * per_env[s.env] for s in served) * count,
        reads=reads * count,
        writes=most * limit * count if model else 0,
        tries=1 + _retries(user),
    )  # fmt: skip


def _replies(env: ComponentPlan, user: ComponentPlan) -> int:
    if user.name == "static":
        return 0
    events = int(env.fields.get("max_events", 0) or 0)
    return min(_turns(env), events) if events else _turns(env)


def _of_judge(
    plan: Plan, judge: ComponentPlan, judged: list[SourcePlan], budget: BudgetPlan, context: int, message: int
) -> Calls:
    """One call for a whole trajectory, or one for every turn of it; tools and users stand in what it reads."""
    model = str(judge.fields.get("model", ""))
    limit = int(judge.fields.get("max_new_tokens", REPLY))
    live = judge.fields.get("when") == "during_rollout"
    per_env = {s.env: _turns(plan.labelled(s.env)) if live else 1 for s in judged}
    most = max(per_env.values())
    beside = sum(SEEN_BESIDE.get(part, 0) for part in judge.fields.get("sees", ()))
    if live:
        reads = sum(_prefix(i + 1, message + limit, context) + beside for i in range(most))
    else:
        reads = OWN_PROMPT + context + beside
    count = budget.trajectories
    return Calls(
        "judge", judge.label, model,
        number=most * count,
        expected=sum(s.share * per_env[s.env] for s in judged) * count,
        reads=reads * count if model else 0,
        writes=most * limit * count if model else 0,
        tries=1 + _retries(judge),
    )  # fmt: skip


def _prefix(exchanges: int, exchange: int, context: int) -> int:
    """Tokens that are read after so many exchanges of a dialogue that cannot outgrow its context."""
    return OWN_PROMPT + min(context, exchanges * exchange)


def _retries(part: ComponentPlan) -> int:
    rules = part.wiring.get("on_failure", [])
    return next((int(rule["retry"][0]) for rule in rules if isinstance(rule, dict) and "retry" in rule), 0)


def ceil_share(total: int, parts: int) -> int:
    """The largest of `parts` nearly equal shares."""
    return math.ceil(total / max(1, parts))
