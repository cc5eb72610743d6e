"""Lints: specs that are sound, and that the field has learned not to run.

Each lint is a function from a scene (the experiment and its elaborated formulas) to diagnostics, with a code of its own
whose explanation names the paper or the lesson. They run only on a spec without errors. Those about tasks, users and
judges are in `task_lints`, those about formulas in `formula_lints`. A value that says where it comes from
(`reported(...)`, `assumed(...)`, `chosen(...)`) is meant as it stands: lints about one value leave it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rlspec.compiler.catalog.policies import HuggingFace, Tiny
from rlspec.compiler.catalog.stages import Evaluate, Grpo, Sft
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formula_lints import FORMULA_LINTS, Scored
from rlspec.compiler.formulas import Formulas
from rlspec.compiler.lint_scene import Scene, meant, place, place_value, warn, written
from rlspec.compiler.ranges import number_text
from rlspec.compiler.static import Quantity
from rlspec.compiler.task_lints import TASK_LINTS
from rlspec.dsl.diagnostics import Diagnostic

FEWEST_TASKS = 25  # the standard error of a share is at most 0.5 / sqrt(tasks): 10 points at 25 tasks
FULL_TUNING_LR = 1e-4  # published rates of the five papers' reinforcement learning lie between 5e-7 and 2e-6
NEARLY_GREEDY = 0.3
FEWEST_MESSAGES = 4


Lint = Callable[[Scene], Iterator[Diagnostic]]


def lint(experiment: Experiment, sources: list[Formulas], report: list[Diagnostic]) -> None:
    """Append what the lints find. Call it only where `report` holds no error."""
    scene = Scene(experiment, sources)
    for check in LINTS:
        report.extend(check(scene))
    for source in sources:
        scored = Scored(experiment, source)
        for formula_check in FORMULA_LINTS:
            report.extend(d for d in formula_check(scored) if d not in report)


# ------------------------------------------------------------------------------------------------------ training


def _kl_on_dead_groups(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        if grpo.kl.coefficient > 0 and grpo.kl.place == "loss" and grpo.on_dead_groups == "keep":
            if meant(stage, "on_dead_groups") or meant(stage, "kl.coefficient"):
                continue
            yield warn("RLC0507", "groups without a difference in reward are kept, and only the KL pulls on them",
                        place(stage, "on_dead_groups"), "write `on_dead_groups = skip`")  # fmt: skip


def _gradient_of_mean_zero(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        kl = grpo.kl
        if kl.coefficient > 0 and kl.place == "loss" and kl.estimator == "k1" and not meant(stage, "kl.estimator"):
            yield warn("RLC0508", "k1 in the loss has a gradient of mean zero: it is noise, not a pull",
                        place(stage, "kl.estimator"), "use k2 or k3, or `kl.place = reward`")  # fmt: skip


def _updates_without_a_clip(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        for side in ("clip_low", "clip_high"):
            if grpo.updates_per_step > 1 and getattr(grpo, side) == 0 and not meant(stage, side):
                yield warn("RLC0516", f"with {side} = 0 only the first of {grpo.updates_per_step} updates learns "
                            "freely", place(stage, side), "every later ratio lies at or behind the clip")  # fmt: skip
                break


def _inverted_clip(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        if 0 < grpo.clip_high < grpo.clip_low and not (meant(stage, "clip_high") or meant(stage, "clip_low")):
            yield warn("RLC0524", "unlikely tokens are held down harder than likely ones: clip_high < clip_low",
                        place(stage, "clip_high"), f"clip_low is {number_text(grpo.clip_low)}")  # fmt: skip


def _nearly_greedy(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        if grpo.temperature < NEARLY_GREEDY and not meant(stage, "temperature"):
            yield warn("RLC0525", f"at temperature {number_text(grpo.temperature)} the trajectories of a group are "
                        "nearly the same", place(stage, "temperature"), "sample rollouts at about 1")  # fmt: skip


def _rise_beyond_the_end(scene: Scene) -> Iterator[Diagnostic]:
    for stage in scene.experiment.of("stage").values():
        made = stage.component
        steps = made.steps if isinstance(made, Grpo) else made.max_steps if isinstance(made, Sft) else None
        if steps is not None and isinstance(made, Grpo | Sft) and made.lr_warmup > steps:
            yield warn("RLC0527", f"the learning rate rises for {made.lr_warmup} steps, the stage ends after {steps}",
                        place(stage, "lr_warmup"), "lr is never reached")  # fmt: skip


def _rate_of_small_models(scene: Scene) -> Iterator[Diagnostic]:
    pretrained = any(isinstance(p.component, HuggingFace) for p in scene.experiment.of("policy").values())
    for stage, grpo in scene.training():
        if pretrained and grpo.lr > FULL_TUNING_LR and not meant(stage, "lr"):
            whose = "this" if written(stage, "lr") else "the default, which suits small models,"
            yield warn("RLC0523", f"lr = {number_text(grpo.lr)}: {whose} breaks pretrained weights",
                        place(stage, "lr"), "published ones lie at 5e-7 to 2e-6")  # fmt: skip


def _from_random_weights(scene: Scene) -> Iterator[Diagnostic]:
    random = any(isinstance(p.component, Tiny) for p in scene.experiment.of("policy").values())
    started = False
    for stage in scene.experiment.of("stage").values():
        started = started or isinstance(stage.component, Sft)
        if random and not started and isinstance(stage.component, Grpo):
            yield warn("RLC0521", "reinforcement learning from random weights: every reward is the same",
                        stage.item.head.span, "put a cold start (`sft`) before it")  # fmt: skip


def _message_beside_context(scene: Scene) -> Iterator[Diagnostic]:
    context = min((int(getattr(p.component, "context", 0)) for p in scene.experiment.of("policy").values()), default=0)
    turns = max((int(getattr(e.component, "max_turns", 1)) for e in scene.experiment.of("env").values()), default=1)
    talks: list[tuple[Declared, Grpo | Evaluate]] = [*scene.training(), *scene.evaluations()]
    for stage, made in talks:
        fit = context // made.max_new_tokens
        if fit < min(FEWEST_MESSAGES, turns) and not meant(stage, "max_new_tokens"):
            yield warn("RLC0517", f"{fit} message{'s' * (fit != 1)} of {made.max_new_tokens} tokens fill the context "
                        f"of {context}, and a talk may take {turns}", place(stage, "max_new_tokens"),
                        "shorten the messages or widen the policy's context")  # fmt: skip


def _talk_beyond_context(scene: Scene) -> Iterator[Diagnostic]:
    for policy in scene.experiment.of("policy").values():
        reads = int(getattr(policy.component, "context", 0))
        for env in scene.experiment.of("env").values():
            allowed = int(getattr(env.component, "context", 0))
            if allowed > reads and not meant(policy, "context"):
                yield warn("RLC0518", f"`{env.label}` lets a dialogue grow to {allowed} tokens, the policy reads "
                            f"{reads}", place(policy, "context"), "what does not fit is cut off")  # fmt: skip


# ---------------------------------------------------------------------------------------------------- evaluation


def _seen_tasks(scene: Scene) -> Iterator[Diagnostic]:
    stages = scene.evaluations()
    if not scene.training() or not stages or any(e.split == "test" for _, e in stages):
        return
    for stage, _ in stages:
        if not meant(stage, "split"):
            yield warn("RLC0511", "every evaluation measures tasks of the training split",
                        place(stage, "split"), "write `split = test`")  # fmt: skip


def _familiar_phrasing(scene: Scene) -> Iterator[Diagnostic]:
    stages = scene.evaluations()
    if not scene.training() or not stages or any(e.phrasing == "held_out" for _, e in stages):
        return
    for stage, _ in stages:
        if not meant(stage, "phrasing"):
            yield warn("RLC0512", "every evaluation speaks with users in the phrasing of training",
                        place(stage, "phrasing"), "write `phrasing = held_out`")  # fmt: skip


def _too_few_tasks(scene: Scene) -> Iterator[Diagnostic]:
    for stage, made in scene.evaluations():
        if made.tasks < FEWEST_TASKS and not meant(stage, "tasks"):
            error = 50 / made.tasks**0.5
            yield warn("RLC0515", f"a success rate over {made.tasks} task{'s' * (made.tasks != 1)} is known to "
                        f"±{error:.0f} points at best", place(stage, "tasks"),
                        f"measure {FEWEST_TASKS} tasks or more")  # fmt: skip


def _no_start_measured(scene: Scene) -> Iterator[Diagnostic]:
    """Only where something is evaluated after the first training stage: then what did it gain?"""
    for trained, _ in scene.training()[:1]:
        order = list(scene.experiment.of("stage"))
        earlier = set(order[: order.index(trained.label)])
        measured = [e for _, e in scene.evaluations()]
        if not any(trained.label in e.after for e in measured):
            return
        if any(trained.label in e.before or earlier & {*e.after, *e.before} for e in measured):
            return
        yield Diagnostic("RLC0906", f"nothing is measured before `{trained.label}`: what it gains stays unknown",
                         trained.item.head.span, severity="note",
                         label=f"add `before = [{trained.label}]` to an evaluation")  # fmt: skip


# ----------------------------------------------------------------------------------- what is paid for or set in vain


def _judge_without_effect(scene: Scene) -> Iterator[Diagnostic]:
    read = {s.measure.partition(".")[0] for source in scene.sources for s in source.signals}
    for judge in scene.experiment.of("judge").values():
        if judge.label not in read:
            yield warn("RLC0513", f"judge `{judge.label}` is called on every trajectory, and no reward reads it",
                        judge.item.head.span, "read it in a signal, or leave it out")  # fmt: skip


def _share_of_nothing(scene: Scene) -> Iterator[Diagnostic]:
    measured = {label for _, evaluation in scene.evaluations() for label in evaluation.on}
    for label, share in scene.experiment.mix.items():
        if share == 0 and label not in measured and (env := scene.experiment.of("env").get(label)) is not None:
            yield warn("RLC0526", f"env `{label}` has no share of the tasks", env.item.head.span,
                        "give it a share, leave it out, or name it in an evaluation's `on`")  # fmt: skip


def _evaluation_that_never_comes(scene: Scene) -> Iterator[Diagnostic]:
    followed = {label for _, e in scene.evaluations() for label in e.after}
    for stage, grpo in scene.training():
        if grpo.evaluate_every > 0 and stage.label not in followed:
            yield warn("RLC0903", f"`evaluate_every` of `{stage.label}` has no effect: no evaluation is `after` it",
                        place(stage, "evaluate_every"), f"add `after = [{stage.label}]` to an evaluation")  # fmt: skip


def _checkpoint_beyond_the_end(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        if written(stage, "checkpoint_every") and grpo.checkpoint_every > grpo.steps:
            yield warn("RLC0904", f"a checkpoint every {grpo.checkpoint_every} steps of {grpo.steps}: an interrupted "
                        "run begins again", place(stage, "checkpoint_every"))  # fmt: skip


def _kl_without_weight(scene: Scene) -> Iterator[Diagnostic]:
    for stage, grpo in scene.training():
        for path in ("kl.estimator", "kl.place"):
            if grpo.kl.coefficient == 0 and written(stage, path):
                yield warn("RLC0905", f"`{path}` has no effect: the KL's coefficient is 0",
                            place(stage, path), "set `kl.coefficient`, or leave it out")  # fmt: skip
                break


def _unsourced(scene: Scene) -> Iterator[Diagnostic]:
    """One line for all: numbers of a paper's spec that do not say where they come from. Those of an overlay are no
    claims about the paper."""
    experiment = scene.experiment
    if not experiment.cites:
        return
    end = experiment.item.span.stop  # the spans of other files lie behind
    found = [
        f"{declared.kind}.{declared.label}.{path}"
        for group in experiment.components.values()
        for declared in group.values()
        for path, origin in declared.origins.items()
        if origin.kind == "written"
        and (origin.span is None or origin.span.start < end)
        and _is_number(place_value(declared, path))
    ]
    found += [
        f"param.{name}"
        for name, leaf in experiment.params.items()
        if leaf.origin.kind == "written" and isinstance(leaf.value, Quantity)
    ]
    if found:
        one = len(found) == 1
        says = "1 number of a paper's spec does" if one else f"{len(found)} numbers of a paper's spec do"
        yield Diagnostic("RLC0901", f"{says} not say where {'it comes' if one else 'they come'} from",
                         experiment.item.head.span, "note", "reported, assumed or chosen?",
                         (", ".join(found),))  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


LINTS: tuple[Lint, ...] = (
    _kl_on_dead_groups,
    _gradient_of_mean_zero,
    _updates_without_a_clip,
    _inverted_clip,
    _nearly_greedy,
    _rise_beyond_the_end,
    _rate_of_small_models,
    _from_random_weights,
    _message_beside_context,
    _talk_beyond_context,
    _seen_tasks,
    _familiar_phrasing,
    _too_few_tasks,
    _no_start_measured,
    _judge_without_effect,
    _share_of_nothing,
    _evaluation_that_never_comes,
    _checkpoint_beyond_the_end,
    _kl_without_weight,
    _unsourced,
    *TASK_LINTS,
)
