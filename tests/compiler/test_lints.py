"""Each lint speaks where its mistake is made, once, at its place, and is silent on what ships and on what is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import replaced
from rlspec.compiler.check import Checked, check, check_whole
from rlspec.dsl.diagnostics import Source, render

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
TARL = (ROOT / "specs" / "papers" / "tarl.rlspec").read_text()
MUA_RL = (ROOT / "specs" / "papers" / "mua_rl.rlspec").read_text()
SHIPPED = [*sorted((ROOT / "examples").glob("*.rlspec")), *sorted((ROOT / "specs" / "papers").glob("*.rlspec"))]


def checked(text: str) -> Checked:
    found = check(Source("test.rlspec", text))
    assert not found.errors, [render(d, found.source) for d in found.errors]
    return found


REWARD = SAMPLE[SAMPLE.index("  reward R") : SAMPLE.index("  advantage A")]

TIER = "  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier\n"
DESK = "env desk : shop { difficulty = 1  max_turns = 16agent_turns }"

# what it is: (edits of the sample, code, severity, a part of the line that is marked)
LINTS: dict[str, tuple[list[tuple[str, str]], str, str, str]] = {
    "per-turn injection": (
        [("A : real@traj = std.grpo(R)", "A : real@turn = R + zscore(verdict over (traj, turn))")],
        "RLC0506", "warning", "zscore(verdict",
    ),
    "KL on dead groups": (
        [("lr = 3e-4", "lr = 3e-4  kl.coefficient = 0.01  on_dead_groups = keep")], "RLC0507", "warning", "keep",
    ),
    "k1 in the loss": (
        [("lr = 3e-4", "lr = 3e-4  kl { coefficient = 0.01  estimator = k1 }")], "RLC0508", "warning", "k1",
    ),
    "groups of two": ([("group = 8trajs", "group = 2trajs")], "RLC0509", "warning", "std.grpo"),
    "evaluation on training tasks": ([("split = test", "split = train")], "RLC0511", "warning", "split"),
    "evaluation in training phrasing": (
        [("phrasing = held_out", "phrasing = train")], "RLC0512", "warning", "phrasing",
    ),
    "judge that nothing reads": (
        [(REWARD, "  reward R : real@traj = outcome\n"),
         ("  signal verdict : int@turn in {-1, 0, 1} = turns.score\n", "")],
        "RLC0513", "warning", "judge turns",
    ),
    "few tasks": ([("tasks = 128tasks", "tasks = 9tasks")], "RLC0515", "warning", "tasks = 9"),
    "several updates without a clip": ([("clip_low = 0.2", "clip_low = 0")], "RLC0516", "warning", "clip_low = 0"),
    "messages that fill the context": (
        [("lr = 3e-4", "lr = 3e-4  max_new_tokens = 300tokens")], "RLC0517", "warning", "300tokens",
    ),
    "failure above success": (
        [(REWARD, "  reward R : real@traj = outcome + 3 * mean(verdict over turn)\n")], "RLC0520", "warning", "outcome",
    ),
    "random weights": (
        [(SAMPLE[SAMPLE.index("  stage coldstart") : SAMPLE.index("  stage train")], ""),
         ("after = [coldstart, train]", "before = [train]  after = [train]")],
        "RLC0521", "warning", "stage train",
    ),
    "no baseline": ([("std.grpo(R)", "2 * R")], "RLC0522", "warning", "2 * R"),
    "rate of small models": (
        [(SAMPLE[SAMPLE.index("policy agent") : SAMPLE.index("  env desk")],
          'policy agent : hf { model = "any" }\n')],
        "RLC0523", "warning", "lr = 3e-4",
    ),
    "inverted clip": ([("clip_high = 0.2", "clip_high = 0.1")], "RLC0524", "warning", "clip_high"),
    "nearly greedy": ([("temperature = 1.0", "temperature = 0.1")], "RLC0525", "warning", "temperature = 0.1"),
    "long rise": ([("lr = 3e-4", "lr = 3e-4  lr_warmup = 500steps")], "RLC0527", "warning", "500steps"),
    "judge alone": (
        [(REWARD, "  reward R : real@traj = mean(verdict over turn)\n"),
         ("  signal outcome : int@traj in {0, 1}     = env.verified\n", "")],
        "RLC0528", "warning", "mean(verdict",
    ),
    "unsourced numbers": (
        [("  title", '  cites = paper("arXiv:2509.14480")\n  title')], "RLC0901", "note", "experiment sample",
    ),
    "raw singleton": ([("std.grpo(R)", "zscore(R over traj, singleton = raw)")], "RLC0902", "note", "singleton"),
    "evaluation that never comes": (
        [("lr = 3e-4", "lr = 3e-4  evaluate_every = 10steps"), ("[coldstart, train]", "[coldstart]")],
        "RLC0903", "warning", "evaluate_every",
    ),
    "late checkpoint": ([("= 20steps", "= 900steps")], "RLC0904", "warning", "checkpoint_every"),
    "weightless KL": ([("lr = 3e-4", "lr = 3e-4  kl.estimator = k2")], "RLC0905", "warning", "kl.estimator"),
    "pay by kind": (
        [("  signal outcome", "  judge tiers : tiers { on = [desk] }\n  signal outcome"),
         ("  advantage A", f"{TIER}  advantage A"),
         ("A : real@traj = std.grpo(R)", "A : real@turn = R + zscore(std.tiers_dense(tier) over (traj, turn))")],
        "RLC0535", "warning", "std.tiers_dense",
    ),
    "few tools": (
        [(DESK, "env desk : codegym { from = made }"),
         ("  stage coldstart", "  stage made : codegym { admit.distinct_tools = 3 }\n  stage coldstart"),
         ("context = 384tokens", "context = 8_192tokens")],
        "RLC0536", "warning", "distinct_tools",
    ),
    "a floor": (
        [(DESK, 'env desk : tau_bench { domain = airline  split = reported(test, "no other split") }'),
         ("context = 384tokens", "context = 32_768tokens")],
        "RLC0537", "note", "domain = airline",
    ),
    "cut dialogues beside a floor": (
        [(DESK, 'env desk : tau_bench { domain = chosen(airline, "known")  split = reported(test, "no other")\n'
                "    reward_truncated = true }"),
         ("context = 384tokens", "context = 32_768tokens")],
        "RLC0538", "warning", "reward_truncated",
    ),
    "gold calls where there are none": (
        [(DESK, 'env desk : verified_answers { source = "sums.jsonl" }'),
         ("context = 384tokens", "context = 32_768tokens")],
        "RLC0539", "warning", "on = [desk]",
    ),
    "a user who is not there": (
        [("user customer : agenda { serves = [desk]  reveal = 35%  changes_mind = 70% }",
          "user customer : static { serves = [desk] }\n  user live : agenda { serves = [desk] }"),
         ("[coldstart, train]", "[coldstart, train]  user = live")],
        "RLC0541", "warning", "user = live",
    ),
    "no start measured": ([("[coldstart, train]", "[train]")], "RLC0906", "note", "stage train"),
}  # fmt: skip


@pytest.mark.parametrize(("edits", "code", "severity", "part"), LINTS.values(), ids=LINTS.keys())
def test_a_lint_speaks_once_at_its_place(edits: list[tuple[str, str]], code: str, severity: str, part: str) -> None:
    found = checked(replaced(SAMPLE, *edits))
    shown = "\n".join(render(d, found.source) for d in found.diagnostics)
    assert [(d.code, d.severity) for d in found.diagnostics] == [(code, severity)], shown
    (diagnostic,) = found.diagnostics
    assert diagnostic.span is not None
    line, _ = found.source.position(diagnostic.span.start)
    assert part in found.source.line(line), shown


def codes(text: str) -> list[str]:
    return [d.code for d in checked(text).diagnostics]


def test_a_text_match_beside_a_state_match() -> None:
    text = replaced(MUA_RL, ("indicator(env.db_hash == env.reference_hash)",
                             "indicator(env.db_hash == env.reference_hash) * env.outputs_said"))  # fmt: skip
    assert "RLC0510" in codes(text)


def test_training_on_the_test_split_unless_the_paper_says_so() -> None:
    assert "RLC0519" not in codes(MUA_RL)
    meant = MUA_RL[MUA_RL.index("reported(test") : MUA_RL.index("max_turns")]
    assert "RLC0519" in codes(MUA_RL.replace(meant, "test\n    ", 1))


def test_a_dialogue_that_the_policy_cannot_read() -> None:
    assert "RLC0518" in codes(replaced(TARL, ('context = reported(32_768tokens, "table of hyperparameters") }',
                                              "context = 8_192tokens }")))  # fmt: skip


def test_an_environment_without_a_share() -> None:
    found = checked(replaced(TARL, ("retail = 1 - math_share  math = math_share", "retail = 1  math = 0")))
    assert "RLC0526" in [d.code for d in found.diagnostics]


def test_a_judge_without_errors_may_reach_turns() -> None:
    per_turn = ("A : real@traj = std.grpo(R)", "A : real@turn = R + zscore(verdict over (traj, turn))")
    assert codes(replaced(SAMPLE, per_turn, ("flip = 5%", "flip = 0%"))) == []


def test_a_verdict_that_is_collapsed_first_may_reach_turns() -> None:
    lifted = ("A : real@traj = std.grpo(R)", "A : real@turn = std.grpo(R) + 0 * index(turn)")
    assert codes(replaced(SAMPLE, lifted)) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_specs_have_no_warning_but_the_clip_of_tarl(path: Path) -> None:
    warnings = [d.code for d in checked(path.read_text()).diagnostics if d.severity == "warning"]
    assert warnings == (["RLC0403"] if path.stem == "tarl" else [])


@pytest.mark.parametrize("code", ["RLC0508", "RLC0515", "RLC0524", "RLC0525"])
def test_a_value_with_its_provenance_is_meant(code: str) -> None:
    edits = {
        "RLC0508": ("lr = 3e-4", 'lr = 3e-4  kl { coefficient = 0.01  estimator = chosen(k1, "to see it fail") }'),
        "RLC0515": ("tasks = 128tasks", 'tasks = chosen(9tasks, "all there are")'),
        "RLC0524": ("clip_high = 0.2", 'clip_high = reported(0.1, "table 2")'),
        "RLC0525": ("temperature = 1.0", 'temperature = reported(0.1, "table 2")'),
    }
    assert codes(replaced(SAMPLE, edits[code])) == []


def test_lints_wait_until_there_is_no_error() -> None:
    text = replaced(SAMPLE, ("group = 8trajs", "group = 2trajs"), ("layers = 3", "layerz = 3"))
    assert [d.code for d in check(Source("test.rlspec", text)).diagnostics] == ["RLC0104"]


def test_a_reward_without_a_bound_is_linted_too() -> None:
    text = (Path(__file__).parents[1] / "sample.rlspec").read_text()
    unbounded = text.replace("reward R : real@traj in [-0.1, 1.1] =", "reward R : real@traj = num(turn) +")
    assert unbounded != text
    assert not check(Source("unbounded.rlspec", unbounded)).errors


VARIED = "  credit = agent_tokens(A)\n  variant milder { patch.reward.R : real@traj = outcome  %s }\n"


@pytest.mark.parametrize(
    ("means", "told"),
    [
        ("patch.stage.train.lr = 1e-4", True),
        ("patch.stage.train.kl.coefficient = 0.01", True),
        ('patch.stage.train.lr = reported(1e-4, "table 3")', False),
        ("patch.stage.train.steps = 20steps", False),
    ],
)
def test_a_variant_of_rewards_and_rates_together(means: str, told: bool) -> None:
    found = check_whole(Source("test.rlspec", replaced(SAMPLE, ("  credit = agent_tokens(A)\n", VARIED % means))))
    assert not found.errors
    assert [d.code for d in found.diagnostics if d.code == "RLC0540"] == ["RLC0540"] * told


def test_a_sweep_of_rewards_and_rates_is_a_grid_and_no_confusion() -> None:
    grid = "  sweep s { patch.reward.R = [outcome, 2 * outcome]  patch.stage.train.lr = [1e-4] }\n  credit ="
    found = check_whole(Source("test.rlspec", replaced(SAMPLE, ("  credit =", grid))))
    assert "RLC0540" not in [d.code for d in found.diagnostics]


def test_an_ablation_without_a_live_user_is_the_question_itself() -> None:
    live = ("user customer", "user live : agenda { serves = [desk] }\n  user customer")
    exam = ("[coldstart, train]", "[coldstart, train]  user = live")
    still = ("  credit =", "  variant static_user { patch.user.customer : static { } }\n  credit =")
    found = check_whole(Source("test.rlspec", replaced(SAMPLE, live, exam, still)))
    assert [d.code for d in found.diagnostics] == []


def test_pay_by_kind_is_meant_where_it_says_where_it_comes_from_or_was_found() -> None:
    judge = ("  signal outcome", "  judge tiers : tiers { on = [desk] }\n  signal outcome")
    paid = ("A : real@traj = std.grpo(R)", "A : real@turn = std.grpo(R) + zscore(r over (traj, turn))")
    pay = 'if tier == gold then reported(1, "table 2") else 0'
    said = f"{TIER}  let r : real@turn = {pay}\n"
    assert codes(replaced(SAMPLE, judge, paid, ("  advantage A", said + "  advantage A"))) == []
    collapsed = f"{TIER}  let r : real@turn = std.grpo(R) * sum(std.tiers_dense(tier) over turn)\n"
    assert "RLC0535" not in codes(replaced(SAMPLE, judge, paid, ("  advantage A", collapsed + "  advantage A")))


def test_recoveries_are_never_compared_with_what_they_came_from() -> None:
    recovery = ("  stage held_out", "  stage again : resample { within = train }\n\n  stage held_out")
    across = ("std.grpo(R)", "std.reinforce_pp(R)")
    found = [d for d in checked(replaced(SAMPLE, recovery, across)).diagnostics if d.code == "RLC0531"]
    assert {d.message.split("`")[1] for d in found} == {"desk", "again"}


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("verdict == -2", "`verdict == -2` holds never"),
        ("verdict != 3", "`verdict != 3` holds always"),
        ("verdict > 1", "`verdict > 1` holds never"),
        ("verdict >= -1", "`verdict >= -1` holds always"),
        ("verdict in {-1, -2}", "`verdict` is never -2"),
        ("verdict >= 0", None),
        ("verdict != -1", None),
    ],
)
def test_a_comparison_whose_answer_is_known(condition: str, told: str | None) -> None:
    found = checked(replaced(SAMPLE, ("any(verdict == -1 over turn)", f"any({condition} over turn)")))
    assert [d.message for d in found.diagnostics if d.code == "RLC0405"] == ([told] if told else [])
