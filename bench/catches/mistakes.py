"""Planted mistakes: what goes wrong in experiments, as edits of a spec of `tests/`, `sample` unless another is named.

`code` is what `rlc check` must say. `verl` and `trl` plant the same mistake where those libraries have the thing at
all: overrides of verl's trainer configuration, and keyword arguments of TRL's `GRPOConfig`. Where they have not (a
reward is Python there), it is None and not counted against them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Mistake:
    what: str
    code: str
    edits: tuple[tuple[str, str], ...]
    verl: tuple[str, ...] | None = None
    trl: dict[str, Any] | None = field(default=None, hash=False)
    spec: str = "sample"


def _one(
    what: str, code: str, old: str, new: str, verl: str = "", trl: dict[str, Any] | None = None, spec: str = "sample"
) -> Mistake:
    return Mistake(what, code, ((old, new),), tuple(verl.split()) or None, trl, spec)


REWARD = "      outcome\n"
ADVANTAGE = "A : real@traj = std.grpo(R)"
ACTOR = "actor_rollout_ref.actor"
CALIBRATE = "  stage calibrate : irc { signal = tier  outcome = outcome  episodes = 64trajs }\n"
TIER = "  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier\n"
DESK = "env desk : shop { difficulty = 1  max_turns = 16agent_turns }"
WIDE = ("context = 384tokens", "context = 32_768tokens")
AIRLINE = 'domain = chosen(airline, "known")  split = reported(test, "there is no other")'
TEST = '  test "x" { given.outcme = 1  given.verdict = [0]  expect one = R == 1 }'
CONFLICT = '<<<<<<< HEAD\n  note = "a"\n=======\n  note = "b"\n>>>>>>> other'

MISTAKES: tuple[Mistake, ...] = (
    # names
    _one(
        "a misspelt learning rate",
        "RLC0104",
        "lr = 3e-4",
        "learning_rte = 3e-4",
        f"+{ACTOR}.optim.learning_rte=3e-4",
        {"learning_rte": 3e-4},
    ),
    _one(
        "a misspelt number of steps",
        "RLC0104",
        "steps = 200steps",
        "stepz = 200steps",
        "+trainer.total_training_stepz=200",
        {"max_stepz": 200},
    ),
    _one(
        "a field of another library",
        "RLC0104",
        "lr = 3e-4",
        "lr = 3e-4  num_generations = 8",
        "+data.num_generations=8",
        {"rollout_n": 8},
    ),
    _one(
        "an unknown advantage mode",
        "RLC0107",
        "std.grpo(R)",
        "std.grpoo(R)",
        "algorithm.adv_estimator=grpoo",
        {"loss_type": "grpoo"},
    ),
    _one(
        "an unknown aggregation",
        "RLC0202",
        "lr = 3e-4",
        "lr = 3e-4  aggregation = tokens",
        f"{ACTOR}.loss_agg_mode=tokens",
        {"scale_rewards": "tokens"},
    ),
    _one("an unknown KL estimator", "RLC0202", "lr = 3e-4", "lr = 3e-4  kl.estimator = k4", f"{ACTOR}.kl_loss_type=k4"),
    _one(
        "an unknown learning rate schedule",
        "RLC0202",
        "lr = 3e-4",
        "lr = 3e-4  schedule = cosin",
        f"{ACTOR}.optim.lr_scheduler_type=cosin",
        {"lr_scheduler_type": "cosin"},
    ),
    _one("an unknown signal", "RLC0101", REWARD, "      outcme\n"),
    _one("an unknown measure", "RLC0109", "env.verified", "env.success"),
    _one("an unknown environment", "RLC0103", "env desk : shop", "env desk : shoop"),
    _one("a judge of another environment", "RLC0101", "on = [desk]", "on = [math]"),
    _one("an evaluation of a stage that is not there", "RLC0101", "[coldstart, train]", "[coldstart, trian]"),
    _one("a field set twice", "RLC0105", "layers = 3", "layers = 3  layers = 4"),
    _one(
        "a patch of a path that does not exist",
        "RLC0111",
        "  credit =",
        "  variant big { patch.policy.agent.widht = 128 }\n  credit =",
    ),
    # types, units and ranges
    _one(
        "a batch size that is a word",
        "RLC0201",
        "tasks_per_step = 16tasks",
        "tasks_per_step = banana",
        "data.train_batch_size=banana",
        {"per_device_train_batch_size": "banana"},
    ),
    _one(
        "a negative learning rate", "RLC0401", "lr = 3e-4", "lr = -3", f"{ACTOR}.optim.lr=-3", {"learning_rate": -3.0}
    ),
    _one(
        "a temperature of 0 for rollouts",
        "RLC0401",
        "temperature = 1.0",
        "temperature = 0",
        "actor_rollout_ref.rollout.temperature=0",
        {"temperature": 0.0},
    ),
    _one("a clip above 1", "RLC0401", "clip_low = 0.2", "clip_low = 2", f"{ACTOR}.clip_ratio_low=2", {"epsilon": 2.0}),
    _one(
        "a negative KL weight",
        "RLC0401",
        "lr = 3e-4",
        "lr = 3e-4  kl.coefficient = -0.1",
        f"{ACTOR}.kl_loss_coef=-0.1",
        {"beta": -0.1},
    ),
    _one("a share of 135 percent", "RLC0401", "reveal = 35%", "reveal = 135%"),
    _one("turns given in tokens", "RLC0305", "max_turns = 16agent_turns", "max_turns = 16tokens"),
    _one("half a layer", "RLC0201", "layers = 3", "layers = 2.5"),
    _one("a reward of the wrong range", "RLC0402", "in [-0.1, 1.1]", "in [0, 1]"),
    _one(
        "a clip that cannot bind",
        "RLC0403",
        "0.1 * sum(verdict over turn where verdict in {0, 1}) / num(turn)",
        "0.1 * clip(sum(verdict over turn where verdict in {0, 1}) / num(turn), -5, 5)",
    ),
    _one(
        "a z-score of a constant", "RLC0404", ADVANTAGE, "A : real@traj = std.grpo(R) + zscore(0 * outcome over traj)"
    ),
    # levels
    _one("a turn value in a trajectory reward", "RLC0301", "any(verdict == -1 over turn)", "verdict == -1"),
    _one("a sum over the wrong axis", "RLC0301", "sum(verdict over turn where", "sum(verdict over traj where"),
    _one("a sum of what does not vary", "RLC0303", REWARD, "      sum(outcome over turn)\n"),
    _one("a ragged z-score", "RLC0304", ADVANTAGE, "A : real@turn = R + zscore(verdict over traj)"),
    _one("a reducer without an axis", "RLC0306", "any(verdict == -1 over turn)", "any(verdict == -1)"),
    _one("an advantage of the whole group", "RLC0307", ADVANTAGE, "A : real@group = mean(R over traj)"),
    # the experiment
    _one(
        "a group of one",
        "RLC0501",
        "group = 8trajs",
        "group = 1trajs",
        "actor_rollout_ref.rollout.n=1",
        {"num_generations": 1},
    ),
    _one("no credit", "RLC0502", "  credit = agent_tokens(A)\n", ""),
    _one(
        "a reward that reaches no advantage",
        "RLC0503",
        "  credit =",
        "  reward B : real@traj = 2 * outcome\n  credit =",
    ),
    _one("a cold start after training", "RLC0504", "  stage held_out", "  stage again : sft { }\n\n  stage held_out"),
    _one(
        "more updates than groups",
        "RLC0505",
        "updates_per_step = 2",
        "updates_per_step = 32",
        "data.train_batch_size=16 " + f"{ACTOR}.ppo_mini_batch_size=32",
    ),
    _one("heads that do not divide the width", "RLC0505", "heads = 2", "heads = 3"),
    _one("pass^k of more trials than there are", "RLC0514", "trials = 4trajs", "trials = 2trajs"),
    # tables that stages find, schedules and credit
    Mistake(
        "a table that is found after its first use",
        "RLC0504",
        ((CALIBRATE, ""), ("steps = 101steps }\n", f"steps = 101steps }}\n{CALIBRATE}")),
        spec="calibrated",
    ),
    _one("a table read by another signal", "RLC0202", "weight[tier]", "weight[outcome]", spec="calibrated"),
    _one("a table as a number", "RLC0201", "calibrate.weight[tier]", "calibrate.weight", spec="calibrated"),
    _one("a table that the stage does not find", "RLC0109", "calibrate.weight", "calibrate.wieght", spec="calibrated"),
    _one(
        "found weights beyond the declared range", "RLC0402", "in [-1, 1] = cal", "in [0, 1] = cal", spec="calibrated"
    ),
    _one(
        "a batch size that is known only later",
        "RLC0206",
        "tasks_per_step = 8tasks",
        "tasks_per_step = calibrate.weight[gold]",
        spec="calibrated",
    ),
    _one("a schedule where a number is wanted", "RLC0201", "lr = 3e-4", "lr = anneal(3e-4, 1e-4)"),
    _one("a schedule over turns", "RLC0305", "over = 40steps", "over = 40agent_turns", spec="recovery"),
    _one("schedules that leave the range", "RLC0402", "in [0, 2]", "in [0, 1]", spec="recovery"),
    _one("values of a critic that is not there", "RLC0101", ADVANTAGE, "A : real@traj = std.grpo(R) + 0 * train.value"),
    _one("credit restricted by a number", "RLC0201", "agent_tokens(A)", "agent_tokens(A, where = verdict)"),
    _one(
        "the largest of an unnamed pool",
        "RLC0306",
        "agent_tokens(A)",
        "agent_tokens(A, where = top(policy.entropy, share = 20%))",
    ),
    _one(
        "the largest of a pool that is too coarse",
        "RLC0301",
        "agent_tokens(A)",
        "agent_tokens(A, where = top(policy.entropy over turn, share = 20%))",
    ),
    _one(
        "a trajectory's reward paid at every turn",
        "RLC0530",
        ADVANTAGE,
        "A : real@turn = gae(R over turn, value = 0 * index(turn), gamma = 1, lambda = 1)",
    ),
    # sampling again
    _one("recoveries within a cold start", "RLC0504", "within = train", "within = coldstart", spec="recovery"),
    _one(
        "recoveries of failures by a number",
        "RLC0201",
        "within = train",
        "within = train  failed = [fmt]",
        spec="recovery",
    ),
    _one("recoveries normalised with their source", "RLC0531", "std.grpo(R)", "std.reinforce_pp(R)", spec="recovery"),
    # units, failures, composition
    _one("turns compared with tokens", "RLC0305", REWARD, "      outcome - 0.05 * indicator(num(turn) > 10tokens)\n"),
    _one("a width in bytes", "RLC0305", "width = 64", "width = 64GB"),
    _one(
        "an unknown answer to failures",
        "RLC0202",
        "serves = [desk]  reveal",
        "serves = [desk]  on_failure = [dorp]  reveal",
    ),
    _one("a label that the judge can give is left out", "RLC0402", "in {-1, 0, 1} = turns", "in {0, 1} = turns"),
    _one("a threshold of another scale", "RLC0405", "any(verdict == -1 over turn)", "any(verdict == -2 over turn)"),
    _one("shares that do not add up", "RLC0401", "  credit =", "  mix tasks { desk = 50% }\n  credit ="),
    _one("an experiment that extends itself", "RLC0106", "experiment sample {", "experiment sample extends sample {"),
    _one(
        "a sweep over a field that does not exist",
        "RLC0111",
        "  credit =",
        "  sweep s { patch.stage.train.learning_rate = [1e-4, 1e-5] }\n  credit =",
    ),
    _one(
        "a variant without a judge that is still read",
        "RLC0101",
        "  credit =",
        "  variant v { remove = [judge.turns] }\n  credit =",
    ),
    _one("a test of a signal that is not there", "RLC0101", "  credit =", f"{TEST}\n  credit ="),
    _one("a merge that was not finished", "RLC0014", "  credit =", f"{CONFLICT}\n  credit ="),
    _one("a colon for an equals sign", "RLC0005", "lr = 3e-4", "lr: 3e-4"),
    _one("single quotes", "RLC0003", '"A shop assistant that asks before it acts"', "'A shop assistant'"),
    Mistake(
        "more memory than there is",
        "RLC0529",
        (
            ("  credit =", "  resources r : machine { workers = 2  worker_memory = 100MB }\n  credit ="),
            ("width = 64", "width = 1024"),
        ),
    ),
    # lessons
    _one(
        "a noisy judge on single turns", "RLC0506", ADVANTAGE, "A : real@turn = R + zscore(verdict over (traj, turn))"
    ),
    _one("a KL on dead groups", "RLC0507", "lr = 3e-4", "lr = 3e-4  kl.coefficient = 0.01  on_dead_groups = keep"),
    _one(
        "a KL whose gradient has mean zero",
        "RLC0508",
        "lr = 3e-4",
        "lr = 3e-4  kl { coefficient = 0.01  estimator = k1 }",
        f"{ACTOR}.use_kl_loss=true {ACTOR}.kl_loss_coef=0.01 {ACTOR}.kl_loss_type=kl",
    ),
    _one(
        "z-scores over groups of two",
        "RLC0509",
        "group = 8trajs",
        "group = 2trajs",
        "actor_rollout_ref.rollout.n=2",
        {"num_generations": 2},
    ),
    _one("an exam on the training split", "RLC0511", "split = test", "split = train"),
    _one("an exam of nine tasks", "RLC0515", "tasks = 128tasks", "tasks = 9tasks"),
    _one(
        "several updates with a clip of 0",
        "RLC0516",
        "clip_low = 0.2",
        "clip_low = 0",
        f"{ACTOR}.clip_ratio_low=0",
        {"epsilon": 0.0, "num_iterations": 2},
    ),
    _one(
        "messages as long as the context",
        "RLC0517",
        "lr = 3e-4",
        "lr = 3e-4  max_new_tokens = 384tokens",
        "data.max_response_length=384 actor_rollout_ref.rollout.max_model_len=128",
    ),
    Mistake(
        "a judge that outweighs the outcome",
        "RLC0520",
        (("- 0.1 * indicator", "- 3 * indicator"), ("in [-0.1, 1.1]", "in [-3, 1.1]")),
    ),
    _one("an exam in the phrasing of training", "RLC0512", "phrasing = held_out", "phrasing = train"),
    Mistake(
        "a text match beside a match of the state",
        "RLC0510",
        ((DESK, "env desk : tau_bench { domain = retail }"), WIDE, (REWARD, "      outcome * env.outputs_said\n")),
    ),
    Mistake(
        "training on the test split",
        "RLC0519",
        ((DESK, "env desk : tau_bench { domain = retail  split = test }"), WIDE),
    ),
    Mistake(
        "tasks that are solved by doing nothing",
        "RLC0537",
        ((DESK, 'env desk : tau_bench { domain = airline  split = reported(test, "there is no other") }'), WIDE),
    ),
    Mistake(
        "cut dialogues rewarded beside such a floor",
        "RLC0538",
        ((DESK, f"env desk : tau_bench {{ {AIRLINE}  reward_truncated = true }}"), WIDE),
    ),
    Mistake(
        "tasks of three tools",
        "RLC0536",
        (
            (DESK, "env desk : codegym { from = made }"),
            ("context = 384tokens", "context = 8_192tokens"),
            ("  stage coldstart", "  stage made : codegym { admit.distinct_tools = 3 }\n  stage coldstart"),
        ),
    ),
    Mistake(
        "a judge by gold calls where there are none",
        "RLC0539",
        ((DESK, 'env desk : verified_answers { source = "sums.jsonl" }'), WIDE),
    ),
    Mistake(
        "a static user trained for a live one",
        "RLC0541",
        (
            (
                "user customer : agenda { serves = [desk]  reveal = 35%  changes_mind = 70% }",
                "user customer : static { serves = [desk] }\n  user live : agenda { serves = [desk] }",
            ),
            ("[coldstart, train]", "[coldstart, train]  user = live"),
        ),
    ),
    Mistake(
        "turns paid by kind as it seems right",
        "RLC0535",
        (
            ("  signal outcome", f"  judge tiers : tiers {{ on = [desk] }}\n{TIER}  signal outcome"),
            (ADVANTAGE, "A : real@turn = R + zscore(std.tiers_dense(tier) over (traj, turn))"),
        ),
    ),
    _one(
        "short successes above long ones",
        "RLC0532",
        ADVANTAGE,
        "A : real@turn = std.gtpo(0 * index(turn), R, gamma = 0.9, lambda = 0.3)",
    ),
    _one(
        "an ablation of rewards and learning rate together",
        "RLC0540",
        "  credit =",
        "  variant v { patch.reward.R : real@traj = outcome  patch.stage.train.lr = 1e-4 }\n  credit =",
    ),
    _one("an advantage without a baseline", "RLC0522", "std.grpo(R)", "2 * R"),
    _one(
        "a clip that is narrower above",
        "RLC0524",
        "clip_high = 0.2",
        "clip_high = 0.1",
        f"{ACTOR}.clip_ratio_high=0.1",
        {"epsilon": 0.2, "epsilon_high": 0.1},
    ),
    _one(
        "nearly greedy rollouts",
        "RLC0525",
        "temperature = 1.0",
        "temperature = 0.1",
        "actor_rollout_ref.rollout.temperature=0.1",
        {"temperature": 0.1},
    ),
    _one(
        "a warm-up longer than the stage",
        "RLC0527",
        "lr = 3e-4",
        "lr = 3e-4  lr_warmup = 900steps",
        f"trainer.total_training_steps=200 {ACTOR}.optim.lr_warmup_steps=900",
        {"warmup_steps": 900, "max_steps": 200},
    ),
    Mistake(
        "an exam that never comes",
        "RLC0903",
        (("steps = 200steps", "steps = 200steps  evaluate_every = 10steps"), ("[coldstart, train]", "[coldstart]")),
    ),
    _one(
        "a KL estimator without a weight",
        "RLC0905",
        "lr = 3e-4",
        "lr = 3e-4  kl.estimator = k2",
        f"{ACTOR}.use_kl_loss=false {ACTOR}.kl_loss_type=mse",
    ),
    _one(
        "a claim that does not add up",
        "RLC0801",
        "  credit =",
        '  claims { a = reported(64.6%, "t")  b = reported(57.3%, "t")  assert gain = b - a == -6.5pp }\n  credit =',
    ),
)
