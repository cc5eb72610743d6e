"""The same conversations under two specs: what the difference does."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import correlation

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from rlspec.cli.compile import plan_text
from rlspec.cli.rescore import rescore
from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.dsl.diagnostics import Source
from rlspec.runtime import rescoring
from rlspec.runtime.logs import fitting
from rlspec.runtime.logs import log as logs
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Message, Task

ROOT = Path(__file__).parents[2]
MINI = (ROOT / "tests" / "mini.rlspec").read_text()
HARSH = MINI.replace("real in [0, 1] = 0.1", "real in [0, 1] = 1")
# (task, outcome, verdicts): two groups that differ, and one that is dead under both
TALKS = [
    ("a", 1, [1, -1, 0]), ("a", 0, [1, 1]), ("a", 0, [0, 0]), ("a", 1, [1]),
    ("b", 1, [1, -1]), ("b", 0, [0, 1]),
    ("c", 0, [0]), ("c", 0, [0]),
]  # fmt: skip


def plan_of(text: str, variant: str | None = None) -> Plan:
    found = check(Source("test.rlspec", text), variant=variant)
    assert found.plan is not None, found.errors
    return found.plan


def talk(place: int, task: str, outcome: int, verdicts: list[int], step: int = 0) -> Trajectory:
    ledger = Ledger()
    ledger.append("system", [1, 2])
    dialogue = []
    for number, _ in enumerate(verdicts):
        ledger.append("user", [3])
        ledger.append("agent", [4, 5][: 1 + number % 2], [-0.5, -0.5][: 1 + number % 2], 0)
        dialogue += [Message("user", "please"), Message("agent", "done")]
    group = "abc".index(task)
    measures = {"desk.verified": outcome, "turns.score": verdicts}
    return Trajectory(f"train/{step}/{group}/{place}", "desk", f"desk.train.{group}", group, ledger, dialogue, measures)


def failed(step: int) -> Trajectory:
    one = talk(99, "a", 0, [0], step)
    one.measures, one.failure = {}, "the user's endpoint did not answer"
    return one


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with two steps of the same conversations, scored as the run scores them."""
    path = tmp_path_factory.mktemp("runs") / "mini"
    plan = plan_of(MINI)
    with RunDirectory.create(path, plan_text(plan), plan.digest, MINI) as directory:
        for step in (0, 1):
            batch = [talk(i, *t, step) for i, t in enumerate(TALKS)]
            fitting.score(plan, [(step, batch)], {})
            directory.write_trajectories("train", step, [*batch, failed(step)])
    return path


@pytest.fixture(scope="module")
def logged(run: Path) -> rescoring.Logged:
    return rescoring.read(run)


def effect_of(logged: rescoring.Logged, first: str, second: str) -> rescoring.Effect:
    return rescoring.effect(rescoring.scored(logged, plan_of(first)), rescoring.scored(logged, plan_of(second)))


def test_a_spec_against_itself_changes_nothing(logged: rescoring.Logged) -> None:
    found = effect_of(logged, MINI, MINI)
    assert (found.trajectories, found.groups, found.turns) == (16, 6, 28)  # what the machinery lost is left out
    assert (found.rewards.rho, found.advantages.rho, found.turn_rho) == pytest.approx((1, 1, 1))
    assert (found.rewards.swapped, found.turns_flipped, found.changed, found.largest) == (0, 0, 0, ())
    assert found.dead == (pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_the_run_recorded_what_its_spec_says(logged: rescoring.Logged) -> None:
    before, after = rescoring.matched(rescoring.recorded(logged), rescoring.scored(logged, plan_of(MINI)))
    assert [s.reward for s in before] == [s.reward for s in after]
    assert [s.advantages for s in before] == [s.advantages for s in after]
    assert len(before) == 16


def test_rewards_and_flips_are_those_of_the_formula(logged: rescoring.Logged) -> None:
    before, after = (rescoring.scored(logged, plan_of(text)) for text in (MINI, HARSH))
    # group a: 1 - p + 0.1/3, 0.1, 0, 1.1 with p = 0.1, then 1; group b: 0.95, 0.05 and then 0.05, 0.05, which is dead
    assert [s.reward for s in before[:6]] == pytest.approx([0.9 + 0.1 / 3, 0.1, 0, 1.1, 0.95, 0.05])
    assert [s.reward for s in after[:6]] == pytest.approx([0.1 / 3, 0.1, 0, 1.1, 0.05, 0.05])
    found = rescoring.effect(before, after)
    # trajectory 0 of group a rose above its mean and now lies below it: 3 of 14 turns; group b falls silent: 4 of 14
    assert found.trajectories_flipped == pytest.approx(1 / 8)
    assert found.turns_flipped == pytest.approx(3 / 14)
    assert (found.turns_silenced, found.turns_woken) == (pytest.approx(4 / 14), 0)
    assert found.dead == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    # of group a's six pairs that both rank, (0, 1) is now the other way round
    assert (found.rewards.pairs, found.rewards.swapped) == (12, pytest.approx(2 / 12))
    assert found.largest[0].before.key in ("train/0/0/0", "train/1/0/0")
    changed = {t: (v, found.largest[0].after.terms[t]) for t, v in found.largest[0].before.terms.items()}
    assert [v for t, v in changed.items() if "penalty" in t] == [(pytest.approx(-0.1), pytest.approx(-1))]


def test_groups_of_different_steps_stay_apart(logged: rescoring.Logged, run: Path) -> None:
    one = rescoring.read(run / "trajectories" / "train-000001.parquet")
    scores = rescoring.scored(one, plan_of(MINI))
    assert [s.key for s in scores] == [f"train/1/{'abc'.index(t)}/{i}" for i, (t, _, _) in enumerate(TALKS)]
    assert [s.advantages for s in scores] == [s.advantages for s in rescoring.scored(logged, plan_of(MINI))[8:]]


def test_turn_and_token_advantages_are_compared_by_turn(logged: rescoring.Logged) -> None:
    turn = MINI.replace("real@traj = std.grpo(R)", "real@turn = zscore(verdict over (traj, turn)) + std.grpo(R)")
    found = effect_of(logged, MINI, turn)
    assert found.turns == 28
    assert any(len(set(c.after.advantages)) > 1 for c in found.largest)
    token = MINI.replace("real@traj = std.grpo(R)", "real@token = std.grpo(R) * (1 + index(token))")
    scores = rescoring.scored(logged, plan_of(token))
    assert len(scores[0].advantages) == 3
    assert scores[0].advantages[1] == pytest.approx(1.5 * scores[0].advantages[0])  # the mean over its two tokens


def test_an_advantage_that_is_declared_finer_than_it_is_reaches_every_turn(logged: rescoring.Logged) -> None:
    plan = plan_of(MINI.replace("real@traj = std.grpo(R)", "real@token = std.grpo(R)"))
    assert plan.sources[0].advantage_level == "traj"  # what the scorer spreads over the tokens
    assert [s.advantages for s in rescoring.scored(logged, plan)] == [
        s.advantages for s in rescoring.scored(logged, plan_of(MINI))]  # fmt: skip


def test_other_labels_of_the_same_parts_are_understood(logged: rescoring.Logged) -> None:
    other = MINI.replace("env desk", "env shop").replace("[desk]", "[shop]").replace("turns", "critic")
    other = other.replace("max_critic", "max_turns").replace("agent_critic", "agent_turns")
    assert "judge critic" in other
    found = effect_of(logged, MINI, other)
    assert (found.changed, found.rewards.rho) == (0, pytest.approx(1))


def test_what_the_log_does_not_know_is_refused_by_name(logged: rescoring.Logged) -> None:
    plan = plan_of(MINI)
    source = plan.sources[0]
    signals = tuple(
        s.model_copy(update={"measure": "desk.colour"}) if s.name == "outcome" else s for s in source.signals
    )
    strange = plan.model_copy(update={"sources": (source.model_copy(update={"signals": signals}),)})
    with pytest.raises(Refusal, match=r"desk\.colour") as refusal:
        rescoring.scored(logged, strange)
    assert refusal.value.code == "RLC0705"


def test_an_imported_log_needs_no_run(tmp_path: Path) -> None:
    talks = [talk(i, *t) for i, t in enumerate(TALKS)]
    tasks = [Task(name, "train", "help", (), {}) for name in sorted({t.task for t in talks})]
    logs.write(tmp_path / "log", {"source": "test"}, tasks, talks)
    imported = rescoring.read(tmp_path / "log")
    assert effect_of(imported, MINI, HARSH).dead == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    with pytest.raises(Refusal, match="no scores of its own"):
        rescoring.recorded(imported)


# -------------------------------------------------------------------------------------------------- rank correlation


def test_spearman_knows_ties_and_constants() -> None:
    assert rescoring.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rescoring.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # by hand: ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5
    assert rescoring.spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert rescoring.spearman([1, 1], [1, 2]) is None
    assert rescoring.spearman([], []) is None


numbers = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=30)


@given(numbers)
def test_rank_correlation_is_that_of_ranks_and_blind_to_scale(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    ranks = [[sum(b < a for b in side) + (sum(b == a for b in side) + 1) / 2 for a in side] for side in (x, y)]
    found = rescoring.spearman(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
        return
    assert found == pytest.approx(correlation(*ranks))
    assert rescoring.spearman([3 * a + 1 for a in x], y) == pytest.approx(found)
    assert rescoring.spearman(x, [-b for b in y]) == pytest.approx(-found)


# ----------------------------------------------------------------------------------------------------- the command


def ran(command: click.Command, *words: str | Path) -> Result:
    done = CliRunner().invoke(command, [str(w) for w in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def harsh(tmp_path: Path) -> Path:
    path = tmp_path / "harsh.rlspec"
    path.write_text(HARSH)
    return path


def test_rescore_compares_with_what_was_recorded(run: Path, harsh: Path) -> None:
    shown = ran(rescore, run).output
    assert shown.startswith("as recorded -> its own spec")
    assert "0 of 16" in shown
    shown = ran(rescore, run, "--spec", harsh).output
    assert "sign flips, turns" in shown
    assert "21.4%" in shown
    assert "33.3% -> 66.7%" in shown
    assert "train/0/0/0  desk.train.0" in shown
    assert "- penalty * indicator(any(verdict == -1 over turn)): -0.1 -> -1" in shown


def test_rescore_writes_json_a_line_per_trajectory_and_markdown(run: Path, harsh: Path) -> None:
    body = json.loads(ran(rescore, run, "--spec", harsh, "--format", "json").output)
    assert body["turns_flipped"] == pytest.approx(3 / 14)
    lines = [json.loads(x) for x in ran(rescore, run, "--spec", harsh, "--format", "jsonl").output.splitlines()]
    assert len(lines) == 16
    assert lines[0]["reward"] == pytest.approx([0.9 + 0.1 / 3, 0.1 / 3])
    assert "| dead groups |" in ran(rescore, run, "--spec", harsh, "--format", "md").output


def test_an_unbound_table_is_asked_for_by_name(logged: rescoring.Logged) -> None:
    plan = plan_of(MINI)
    source = plan.sources[0]
    step = source.program.steps[0].model_copy(
        update={"op": "lookup", "args": (0,), "attrs": {"table": "calibrate.weight", "size": 3, "values": None}}
    )
    program = source.program.model_copy(update={"steps": (*source.program.steps, step)})
    waiting = plan.model_copy(update={"sources": (source.model_copy(update={"program": program}),)})
    with pytest.raises(Refusal, match=r"calibrate\.weight is known only after its stage") as refusal:
        rescoring.scored(logged, waiting)
    assert "--table calibrate.weight=0,0,0" in refusal.value.cure
    with pytest.raises(Refusal, match="holds 3 values, not 2"):
        rescoring.scored(logged, waiting, {"calibrate.weight": [1, 2]})


def test_tables_are_those_that_the_run_found(tmp_path: Path) -> None:
    plan = plan_of(MINI)
    with RunDirectory.create(tmp_path / "run", plan_text(plan), plan.digest, MINI) as directory:
        directory.write_result("calibrate", {"results": {"weight": {"gold": 1.0, "read": 0.5}}})
    assert rescoring.read(tmp_path / "run").found() == {"calibrate.weight": [1.0, 0.5]}


def test_trajectories_that_were_sampled_again_are_left_out(tmp_path: Path) -> None:
    plan = plan_of(MINI.replace("  stage held_out", "  stage fission : resample { within = train }\n  stage held_out"))
    batch = [talk(i, *t) for i, t in enumerate(TALKS)]
    again = [replace(batch[0], key="fission/0/0/0", group=7), replace(batch[1], key="fission/0/0/1", group=7)]
    fitting.score(plan, [(0, batch)], {})
    with RunDirectory.create(tmp_path / "run", plan_text(plan), plan.digest, MINI) as directory:
        directory.write_trajectories("train", 0, [*batch, *again])
    logged = rescoring.read(tmp_path / "run")
    assert [s.key for s in rescoring.scored(logged, plan_of(HARSH))] == [t.key for t in batch]
    assert len(rescoring.recorded(logged)) == len(batch)


def test_rescoring_needs_neither_numba_nor_torch(run: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from rlspec.cli.rescore import rescore\n"
        f"CliRunner().invoke(rescore, [{str(run)!r}], catch_exceptions=False)\n"
        "print(*[m for m in ('torch', 'numba', 'ray', 'transformers', 'vllm') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == ""
