"""Demonstrations of a plan's environments: what a cold start imitates, and where words come from."""

from __future__ import annotations

from pathlib import Path

from rlspec.compiler.catalog.codegym import Gym
from rlspec.compiler.catalog.shop import Shop
from rlspec.compiler.catalog.stages import Sft
from rlspec.compiler.plan import Plan
from rlspec.runtime.policies.chat import Dialogue
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import derived_seed, stream
from rlspec.runtime.worlds.codegym import world as codegym
from rlspec.runtime.worlds.codegym.shown import oracle, recorded
from rlspec.runtime.worlds.protocol import Message, Task
from rlspec.runtime.worlds.registry import live_of, world_of


def demonstrate(plan: Plan, label: str, stage: Sft, first: int, count: int) -> list[Dialogue]:
    """Demonstrations number `first`, `first + 1` ... of the plan's first environment, as the stage wants them: of the
    shop by its demonstrators, of synthesised environments by the oracle trajectories of the training split or by
    recorded conversations.

    Raises:
        Refusal: RLC0601, nobody demonstrates that environment.
    """
    source = plan.sources[0]
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
        out.append((task, oracle(world, task, stage.mixture.repair, rng)))
    return out


def lexicon(plan: Plan) -> list[Dialogue]:
    """Dialogues whose words the embedded policy must be able to read beside those of the demonstrations: one of every
    synthesised environment, held-out families among them. Only words come from them, nothing is learned from them."""
    out = []
    for source in plan.sources:
        if not isinstance(plan.labelled(source.env).component(), Gym):
            continue
        world = world_of(plan, source)
        assert isinstance(world, codegym.GymWorld)
        out += [Dialogue(world.system, world.tools, dialogue) for dialogue in world.lexicon()]
    return out
