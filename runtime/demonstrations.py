"""Demonstrations of a plan's environments: what a cold start imitates, and where words come from."""

from __future__ import annotations

from pathlib import Path

from rlspec.compiler.catalog.answers import VerifiedAnswers
from rlspec.compiler.catalog.codegym import Gym
from rlspec.compiler.catalog.shop import Shop
from rlspec.compiler.catalog.stages import Sft
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.policies.chat import Dialogue
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import derived_seed, stream
from rlspec.runtime.worlds.answers import AnswerWorld
from rlspec.runtime.worlds.codegym import world as codegym
from rlspec.runtime.worlds.codegym.shown import oracle, recorded
from rlspec.runtime.worlds.distilled import read_talks
from rlspec.runtime.worlds.mcp.world import McpWorld
from rlspec.runtime.worlds.played import PlayedWorld
from rlspec.runtime.worlds.protocol import Message, Task
from rlspec.runtime.worlds.registry import live_of, world_of

WORDS_OF = 256
"""Problems whose words the embedded policy must be able to read and say."""


def demonstrate(plan: Plan, label: str, stage: Sft, first: int, count: int) -> list[Dialogue]:
    """Demonstrations number `first`, `first + 1` ... as the stage wants them. Environments of verified answers have
    their share of them, the others are of the first environment that is not such a one.

    Raises:
        Refusal: RLC0601, nobody demonstrates that environment.
    """
    answers = {s.env: world_of(plan, s) for s in plan.drawn if _answers(plan, s) and s.share > 0}
    rest = next((s for s in plan.sources if not _answers(plan, s)), None)
    shown = _of(plan, rest, label, stage, first, count) if rest is not None else []
    if not answers:
        return shown
    seed = derived_seed(plan.seed, "demonstrations", label)
    shares = [s.share for s in plan.drawn]
    for place, number in enumerate(range(first, first + count)):
        drawn = plan.drawn[int(stream(seed, "mix", number).choice(len(shares), p=shares))]
        world = answers.get(drawn.env)
        if isinstance(world, AnswerWorld):
            found = Dialogue(world.system, world.tools, world.demonstration(number, seed))
            shown[place : place + 1] = [found]
    return shown


def _answers(plan: Plan, source: SourcePlan) -> bool:
    return isinstance(plan.labelled(source.env).component(), VerifiedAnswers)


def _of(plan: Plan, source: SourcePlan, label: str, stage: Sft, first: int, count: int) -> list[Dialogue]:
    """Demonstrations of one environment: of the shop by its demonstrators, of synthesised environments by the oracle
    trajectories of the training split or by recorded conversations.

    Raises:
        Refusal: RLC0601, nobody demonstrates that environment.
    """
    env = plan.labelled(source.env).component()
    world = world_of(plan, source)
    if isinstance(env, Shop):
        from rlspec.runtime.worlds.shop.demonstrations import demonstrations

        seed = derived_seed(plan.seed, "demonstrations", label)
        shown = demonstrations(env, live_of(plan, source.user), stage.mixture, count, seed, first=first)
        return [Dialogue(world.system, world.tools, demo.dialogue) for demo in shown]
    if isinstance(world, codegym.GymWorld):
        shown_tasks = _of_gym(world, plan, label, stage, range(first, first + count))
        return [Dialogue(world.system, task.tools or world.tools, dialogue) for task, dialogue in shown_tasks]
    if isinstance(world, McpWorld | PlayedWorld) and world.config.distilled:
        talks = read_talks(Path(world.config.distilled))
        numbers = range(first, first + count)
        return [Dialogue(world.system, world.tools, talks[number % len(talks)]) for number in numbers]
    raise Refusal("RLC0601", f"nobody demonstrates `{source.env}` here", "start from a trained policy")


def _of_gym(
    world: codegym.GymWorld, plan: Plan, label: str, stage: Sft, numbers: range
) -> list[tuple[Task, list[Message]]]:
    """The solutions of the training tasks with these numbers, a share `mixture.repair` of them with a slip; or the
    recorded conversations, gone through again and again."""
    if world.config.distilled:
        found = recorded(world, Path(world.config.distilled))
        return [found[number % len(found)] for number in numbers]
    seed = derived_seed(plan.seed, "demonstrations", label)
    out = []
    for number in numbers:
        task = world.task("train", number)
        rng = stream(seed, "codegym", "demonstration", number)
        out.append((task, oracle(world, task, stage.mixture.repair, rng, stage.mixture.guesses)))
    return out


def lexicon(plan: Plan) -> list[Dialogue]:
    """Dialogues whose words the embedded policy must be able to read beside those of the demonstrations: one of every
    synthesised environment, held-out families among them. Only words come from them, nothing is learned from them."""
    out = []
    for judge in plan.judges:
        if judge.fields.get("when") == "during_rollout":
            out.append(Dialogue("", (), [Message("user", str(judge.fields["objection"]))]))
    for source in plan.sources:
        if _answers(plan, source):
            answers = world_of(plan, source)
            assert isinstance(answers, AnswerWorld)
            shown = (answers.demonstration(number, plan.seed) for number in range(WORDS_OF))
            out += [Dialogue(answers.system, answers.tools, dialogue) for dialogue in shown]
        if not isinstance(plan.labelled(source.env).component(), Gym):
            continue
        world = world_of(plan, source)
        assert isinstance(world, codegym.GymWorld)
        out += [Dialogue(world.system, world.tools, dialogue) for dialogue in world.lexicon()]
    return out
