"""From a plan's components to the worlds, users and judges that run them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from rlspec.compiler.catalog.answers import VerifiedAnswers
from rlspec.compiler.catalog.base import Component
from rlspec.compiler.catalog.calls import CallMatch
from rlspec.compiler.catalog.codegym import Gym, Synthesis
from rlspec.compiler.catalog.diagnosticians import Diagnostician
from rlspec.compiler.catalog.papers import LlmJudge, TauBench
from rlspec.compiler.catalog.shop import AgendaUser, OracleJudge, Shop
from rlspec.compiler.catalog.tiers import Tiers
from rlspec.compiler.catalog.tool_sides import Mcp, Played
from rlspec.compiler.catalog.users import LlmUser, RecordedUser, ScriptedUser, StaticUser
from rlspec.compiler.catalog.wording import Wording
from rlspec.compiler.plan import ComponentPlan, Plan, SourcePlan
from rlspec.runtime.record.cache import cache_directory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.secrets import present
from rlspec.runtime.worlds import shop
from rlspec.runtime.worlds.answers import AnswerWorld
from rlspec.runtime.worlds.call_match import CallMatchJudge
from rlspec.runtime.worlds.codegym import store as environments
from rlspec.runtime.worlds.codegym.world import GymWorld
from rlspec.runtime.worlds.llm_judge import LlmJudgement
from rlspec.runtime.worlds.llm_user import LlmUsers
from rlspec.runtime.worlds.mcp.world import McpWorld
from rlspec.runtime.worlds.neutral import falls_back
from rlspec.runtime.worlds.played import PlayedWorld
from rlspec.runtime.worlds.protocol import Judge, Users, World
from rlspec.runtime.worlds.recorded import RecordedUsers, StaticUsers, of, read_recordings
from rlspec.runtime.worlds.shop.modes import ScriptedUsers, recorded_users
from rlspec.runtime.worlds.shop.requests import whole_request
from rlspec.runtime.worlds.shop.user import AgendaUsers
from rlspec.runtime.worlds.task_file import read_tasks
from rlspec.runtime.worlds.tau_bench.world import TauBenchWorld
from rlspec.runtime.worlds.tiers import TierJudge
from rlspec.runtime.worlds.wording import WordingJudge


def _refuse(component: Component) -> Refusal:
    return Refusal(
        "RLC0601",
        f"{component.KIND} `{component.NAME}` can be checked and compiled, but has no runtime here",
        "leave it out" if component.KIND == "stage" else "replace it, e.g. by the embedded shop, agenda and oracle",
    )


def _plugged(component: Component, plan: Plan) -> Any:
    """A plugin's world, user or judge: `factory(component, plan)`. The plan is for what the component refers to.

    Raises:
        Refusal: RLC0604, its code cannot be imported here.
    """
    assert component.FACTORY is not None
    module, _, name = component.FACTORY.partition(":")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        cure = "install the plugin, or put its folder on PYTHONPATH, for every worker"
        raise Refusal("RLC0604", f"{component.KIND} `{component.NAME}`: {error}", cure) from error
    return factory(component, plan)


def world_of(plan: Plan, source: SourcePlan) -> World:
    """The environment of a source.

    Raises:
        Refusal: RLC0601, it has no runtime.
    """
    component = plan.labelled(source.env).component()
    if component.FACTORY is not None:
        return _plugged(component, plan)
    if isinstance(component, Shop):
        return shop.make_world(component)
    if isinstance(component, VerifiedAnswers):
        return AnswerWorld(component)
    if isinstance(component, TauBench):
        return TauBenchWorld(component)
    if isinstance(component, Gym):
        return GymWorld(component, environments.read(environments_of(plan, component)))
    if isinstance(component, Mcp):
        return McpWorld(component, retries_of(plan.labelled(source.env)))
    if isinstance(component, Played):
        return PlayedWorld(component, retries_of(plan.labelled(source.env)))
    raise _refuse(component)


def environments_of(plan: Plan, gym: Gym) -> Path:
    """The folder of an env's synthesised environments: what `source` names, or what the stage of `from` makes, which is
    made once and kept in the cache.

    Raises:
        Refusal: it cannot be read or made.
    """
    if gym.source:
        return Path(gym.source)
    label = getattr(gym, "from")
    settings = next((s.component() for s in plan.stages if s.label == label), None)
    if not isinstance(settings, Synthesis):
        raise Refusal("RLC0504", f"stage `{label}` makes no environments", "name a stage `: codegym` in `from`")
    return environments.made_for(settings, cache_directory())


def user_of(plan: Plan, source: SourcePlan) -> Users | None:
    """The user of a source, or None where the environment talks to nobody. Raises as `world_of`."""
    return None if source.user is None else _user(plan, source.user, source.env)


def _user(plan: Plan, label: str, env: str) -> Users:
    component, world = plan.labelled(label).component(), plan.labelled(env).component()
    if component.FACTORY is not None:
        found: Users = _plugged(component, plan)
        return found
    wishes = isinstance(world, Shop) or (isinstance(world, Mcp | Played) and has_wishes(world))
    if isinstance(component, AgendaUser) and wishes:
        return AgendaUsers(component)
    if isinstance(component, StaticUser):
        return StaticUsers(whole_request if wishes else lambda task, rng, phrasing: task.instruction)
    if isinstance(component, ScriptedUser) and wishes:
        return ScriptedUsers(component)
    if isinstance(component, RecordedUser) and component.source:
        return RecordedUsers(of(read_recordings(Path(component.source))), component.at_the_end)
    if isinstance(component, RecordedUser) and isinstance(world, Shop):
        return recorded_users(component, world, live_of(plan, label))
    if isinstance(component, LlmUser):
        return LlmUsers(component, retries_of(plan.labelled(label)))
    raise _refuse(component)


def has_wishes(env: Mcp | Played) -> bool:
    """Whether an environment's tasks tell what the shop's users know of theirs. Raises as `read_tasks`."""
    tasks = [task for found in read_tasks(Path(env.tasks), env.test_share).tasks.values() for task in found]
    return all({"name", "wishes", "rows"} <= task.payload.keys() for task in tasks)


def retries_of(part: ComponentPlan) -> int:
    """How often a failed user or judge is asked again."""
    rules = part.wiring.get("on_failure", [])
    return next((int(rule["retry"][0]) for rule in rules if isinstance(rule, dict) and "retry" in rule), 0)


def live_of(plan: Plan, label: str | None) -> AgendaUser:
    """The live user of the shop who belongs to a user: itself, the one that it records, the one that examines for
    it, or the one that nobody changed."""
    component = plan.labelled(label).component() if label else None
    named = [getattr(component, "of", ""), *(str(s.fields.get("user", "")) for s in plan.stages)]
    found = [component, *(plan.labelled(name).component() for name in named if name)]
    return next((c for c in found if isinstance(c, AgendaUser)), AgendaUser())


def examiners_of(plan: Plan, source: SourcePlan) -> dict[str, Users]:
    """The users that evaluations put in the place of a source's, by label. Raises as `world_of`."""
    named = dict.fromkeys(str(stage.fields.get("user", "")) for stage in plan.stages)
    return {label: _user(plan, label, source.env) for label in named if plan.examines(label, source.env)}


def judges_of(plan: Plan, source: SourcePlan) -> dict[str, Judge]:
    """The judges of a source by label. Raises as `world_of`."""
    out: dict[str, Judge] = {}
    for label in source.judges:
        component, world = plan.labelled(label).component(), plan.labelled(source.env).component()
        if component.FACTORY is not None:
            out[label] = _plugged(component, plan)
        elif isinstance(component, Tiers):
            out[label] = TierJudge(component)
        elif isinstance(component, LlmJudge):
            out[label] = LlmJudgement(component, lambda: world_of(plan, source).system)
        elif isinstance(component, Wording):
            out[label] = WordingJudge(component)
        elif isinstance(component, CallMatch):
            out[label] = CallMatchJudge(component, lambda: world_of(plan, source).tools)
        elif isinstance(component, OracleJudge) and isinstance(world, Shop):
            out[label] = shop.make_judge(component)
        else:
            raise _refuse(component)
    return out


def tolerated_failures(plan: Plan) -> float:
    """The share of failed trajectories of a step above which the run ends: the smallest `abort_above` of environments,
    users and judges, 1 without any."""
    rules = [rule for part in (*plan.envs, *plan.users, *plan.judges) for rule in part.wiring.get("on_failure", [])]
    return min((float(r["abort_above"][0]) for r in rules if isinstance(r, dict) and "abort_above" in r), default=1.0)


def runnable(plan: Plan) -> None:
    """Refuse, by name and before anything is started, a plan with a component that has no runtime.

    Raises:
        Refusal: RLC0601; RLC0701, RLC0711, RLC0505 for triples that cannot be learned from.
    """
    for part in (plan.policy, plan.engine, *plan.envs, *plan.users, *plan.judges):
        component = part.component()
        present(part.fields)
        if not component.RUNS:
            raise _refuse(component)
        falls_back(part)
    for stage in plan.stages:
        component = stage.component()
        if not component.RUNS:
            raise _refuse(component)
        if isinstance(component, Diagnostician):
            from rlspec.runtime.triples import usable  # which needs this module

            usable(component, stage.label, plan.seed)
    for source in plan.drawn:
        env = plan.labelled(source.env).component()
        if not (isinstance(env, Gym) and not env.source):  # its environments are made when the run has begun
            made = world_of(plan, source)
            if isinstance(made, McpWorld | PlayedWorld):
                made.ready()
        user_of(plan, source)
        examiners_of(plan, source)
        judges_of(plan, source)
