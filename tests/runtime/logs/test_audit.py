"""Audits and pass^k: the published figures of the real log, and a spec's own formulas on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlspec.cli.audit import audit as command
from rlspec.cli.passk import passk
from rlspec.runtime.logs import tau_bench
from rlspec.runtime.logs.audit import audit, pass_powers
from rlspec.runtime.logs.log import Log, write
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Message, Task

AIRLINE = Path(__file__).parents[4] / "shared" / "data" / "tau_bench" / "airline"
needs_data = pytest.mark.skipif(not AIRLINE.is_dir(), reason="the logged conversations are not beside the repository")

SPEC = """rlspec = 1
experiment table {
  policy agent : tiny { width = 32  layers = 2 }
  env desk : shop { }
  user customer : agenda { serves = [desk] }
  judge tiers : tiers { on = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
  reward r : real@turn = REWARD
  advantage A : real@turn = std.gtpo(r, outcome, 0.9, 0.3)
  credit = agent_tokens(A)
  stage coldstart : sft { }
  STAGE
  stage train : grpo { }
}
"""
NAIVE = "by(tier, gold = 1, soft = 0.5, read = 0.3, state = 0.1, msg = 0, err = -0.1, dup = -0.2)"


def spec(tmp_path: Path, reward: str, stage: str = "") -> Path:
    path = tmp_path / "spec.rlspec"
    path.write_text(SPEC.replace("REWARD", reward).replace("STAGE", stage))
    return path


@pytest.fixture(scope="module")
def airline(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("logs") / "airline"
    found = tau_bench.read([AIRLINE / "trajectories_gpt4o.jsonl.gz"], None, "desk")
    write(out, found.about, found.tasks, found.trajectories)
    return out


@needs_data
def test_pass_powers_of_the_airline_log(airline: Path):
    found = pass_powers(Log.open(airline), (1, 2, 3, 4, 5), None)
    assert [None if value is None else round(value, 3) for value, _ in found.values()] == [0.42, 0.273, 0.22, 0.2, None]
    output = CliRunner().invoke(passk, [str(airline)], catch_exceptions=False).output
    assert [line.split()[1] for line in output.splitlines()] == ["0.420", "0.273", "0.220", "0.200"]


@needs_data
def test_what_the_airline_log_says(airline: Path):
    (found,) = audit(Log.open(airline), None)
    assert (found.floor.passed, found.floor.tasks, found.floor.silent) == (20, 50, 19)
    rows = {row.choice: row for row in found.rows}
    assert rows["msg"].share == 1.0
    assert not rows["msg"].evidence
    assert all(row.evidence for row in found.rows if row.choice != "msg")
    assert rows["state"].with_it == 0.0
    assert rows["soft"].rho < -0.3
    assert rows["state"].rho < -0.3
    assert found.suggested["read"] == found.suggested["msg"] == 0.0
    assert sum(row.turns for row in found.rows) == found.turns == 2454
    output = CliRunner().invoke(command, [str(airline)], catch_exceptions=False).output
    assert "doing nothing ends in the wanted state on 20 of 50 tasks (0.400); 19 of them" in output
    assert "no evidence for msg" in output


@needs_data
def test_a_spec_s_table_on_the_airline_log(airline: Path, tmp_path: Path):
    path = spec(tmp_path, NAIVE)
    output = CliRunner().invoke(command, [str(airline), "--spec", str(path), "--json"], catch_exceptions=False).output
    (found,) = json.loads(output[output.index("[\n") :])
    assert found["paid"] == pytest.approx(
        {"gold": 1, "soft": 0.5, "read": 0.3, "state": 0.1, "msg": 0, "err": -0.1, "dup": -0.2}
    )
    assert set(found["mismatches"]) >= {"soft", "state"}
    assert 0 < found["health"]["dead"] < 0.5
    assert found["health"]["misaligned"] > 0.1


@needs_data
def test_an_irc_stage_on_the_airline_log(airline: Path, tmp_path: Path):
    stage = "stage calibrate : irc { signal = tier  outcome = outcome }"
    path = spec(tmp_path, "calibrate.weight[tier]", stage)
    output = CliRunner().invoke(command, [str(airline), "--spec", str(path)], catch_exceptions=False).output
    assert "calibrate: gold +0.000, soft -0.400, read +0.000, state -0.425, msg +0.000" in output
    assert "misaligned turns" in output


def test_a_log_without_outcomes_is_refused(tmp_path: Path):
    ledger = Ledger()
    ledger.append("agent", [], [])
    only = Trajectory("import/0/0/0", "desk", "t", 0, ledger, [Message("agent", "hi")])
    write(tmp_path / "log", {}, [Task("t", "test", "", ())], [only])
    log = Log.open(tmp_path / "log")
    for ask in (lambda: audit(log, None), lambda: pass_powers(log, (1,), None)):
        with pytest.raises(Refusal, match="no outcome"):
            ask()


def test_a_measure_that_the_log_lacks_is_refused_by_name(tmp_path: Path):
    ledger = Ledger()
    ledger.append("agent", [], [])
    talk = [Message("agent", "", Call("a", {}), status="ok")]
    only = Trajectory("import/0/0/0", "other", "t", 0, ledger, talk, {"other.verified": 1})
    write(tmp_path / "log", {}, [Task("t", "test", "", ())], [only])
    path = spec(tmp_path, NAIVE + " + 0 * (user.changed)")
    found = CliRunner().invoke(command, [str(tmp_path / "log"), "--spec", str(path)])
    assert isinstance(found.exception, Refusal)
    assert "customer.changed" in found.exception.reason


@pytest.mark.parametrize("words", [["--k", "0"], ["--k", "x"], ["--k", ""]])
def test_numbers_of_trials_are_checked(tmp_path: Path, words: list[str]):
    assert CliRunner().invoke(passk, [str(tmp_path), *words]).exit_code == 2
