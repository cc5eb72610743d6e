"""Lints over what a policy is trained on, by whom it is spoken to and who judges it: tasks, users and judges.

They share the rules of `rlspec.compiler.lints`, which calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rlspec.compiler.examiners import users_of
from rlspec.compiler.lint_scene import Scene, meant, place, warn
from rlspec.dsl.diagnostics import Diagnostic

FEWEST_TOOLS = 4
MOST_FOR_NOTHING = 0.1  # a smaller floor is within what an evaluation of a hundred tasks can tell
WRITTEN_DOWN = ("static", "recorded")
LIVE = ("agenda", "llm")
UNCHANGED = {
    "db_hash": {"airline": (20, 50), "retail": (11, 115)},
    "write_operations": {"airline": (20, 50), "retail": (9, 115)},
}
"""Of tau-bench's test tasks: those that the verifier takes for solved when nothing was done, counted over the public
data. By the hash two more of retail: their gold calls write, and leave the database as it was."""


def _trained_on_test(scene: Scene) -> Iterator[Diagnostic]:
    for env in scene.experiment.of("env").values():
        if getattr(env.component, "split", "") == "test" and scene.training() and not meant(env, "split"):
            yield warn("RLC0519", f"training draws its tasks from the test split of `{env.label}`",
                        place(env, "split"), 'if the paper does so, write `reported(test, "where")`')  # fmt: skip


def _fewer_tools(scene: Scene) -> Iterator[Diagnostic]:
    if all(stage.name != "codegym" for stage in scene.experiment.of("stage").values()):
        return
    from rlspec.compiler.catalog.codegym import Synthesis  # most specs synthesise nothing

    for stage, made in scene.stages(Synthesis):
        few = isinstance(made, Synthesis) and made.admit.distinct_tools < FEWEST_TOOLS
        if isinstance(made, Synthesis) and few and not meant(stage, "admit.distinct_tools"):
            yield warn("RLC0536", f"tasks that call {made.admit.distinct_tools} different tools are admitted",
                       place(stage, "admit.distinct_tools"), f"ask for {FEWEST_TOOLS} at least",
                       "CodeGym (arXiv:2509.17325) keeps environments of four tools or more")  # fmt: skip


def _solved_by_nothing(scene: Scene) -> Iterator[Diagnostic]:
    """Test tasks of tau-bench, in training or in an evaluation, that need no change of the database."""
    examined = [e for _, e in scene.evaluations() if e.split == "test"]
    for env in scene.experiment.of("env").values():
        if env.name != "tau_bench":
            continue
        from rlspec.compiler.catalog.papers import TauBench

        made = env.component
        if not isinstance(made, TauBench):
            continue
        measured = any(not e.on or env.label in e.on for e in examined)
        counted = {domain: UNCHANGED[made.verifier][domain] for domain in made.domain}
        if sum(n for n, _ in counted.values()) <= MOST_FOR_NOTHING * sum(of for _, of in counted.values()):
            continue
        floors = [f"{n} of {of} {domain} tasks" for domain, (n, of) in counted.items()]
        if (made.split == "test" or measured) and not meant(env, "domain"):
            yield Diagnostic("RLC0537", f"a policy that does nothing solves {' and '.join(floors)}",
                             place(env, "domain"), severity="note",
                             label="compare success with this floor, or leave those tasks out")  # fmt: skip
        if made.split == "test" and made.reward_truncated and scene.training() and not meant(env, "reward_truncated"):
            yield warn("RLC0538", "a dialogue that is cut off is rewarded too, and nothing needs to be done in "
                       f"{' and '.join(floors)}", place(env, "reward_truncated"),
                       "write `reward_truncated = false`")  # fmt: skip


def _static_for_live(scene: Scene) -> Iterator[Diagnostic]:
    """All users that train are written down beforehand, and one that examines is live."""
    experiment = scene.experiment
    trained = [u for env in experiment.of("env") if experiment.mix.get(env, 1) for u in users_of(experiment, env)]
    if not scene.training() or not trained or not all(u.name in WRITTEN_DOWN for u in trained):
        return
    for stage, made in scene.evaluations():
        named = experiment.of("user").get(getattr(made, "user", ""))
        measured = made.on or tuple(experiment.of("env"))
        examining = [named] if named else [u for env in measured for u in users_of(experiment, env)]
        live = next((u for u in examining if u.name in LIVE), None)
        if live is not None and not meant(stage, "user"):
            yield warn("RLC0541", f"trained with `{trained[0].label}`, whose words are the same whatever the agent "
                       f"says, and examined by `{live.label}`, who answers", place(stage, "user"),
                       "train with a live user",
                       "MUA-RL (arXiv:2508.18669) has a model play the user in every rollout")  # fmt: skip
            return


def _judge_without_gold(scene: Scene) -> Iterator[Diagnostic]:
    for judge in scene.experiment.of("judge").values():
        sees = getattr(judge.component, "sees", ()) if judge.name == "llm" else ()
        shown = "gold_calls" in sees and not meant(judge, "sees")
        for label, env in scene.experiment.of("env").items():
            if label not in judge.wiring.get("on", [label]) or getattr(env.schema, "GOLD_CALLS", True):
                continue
            if shown or getattr(judge.schema, "NEEDS_GOLD", False):
                yield warn("RLC0539", f"judge `{judge.label}` compares with gold calls, and the tasks of `{label}` "
                           "have none", place(judge, "on"), "name the environments that have them in `on`")  # fmt: skip


TASK_LINTS: tuple[Callable[[Scene], Iterator[Diagnostic]], ...] = (
    _trained_on_test,
    _fewer_tools,
    _solved_by_nothing,
    _static_for_live,
    _judge_without_gold,
)
