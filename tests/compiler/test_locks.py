"""Locks: everything that a spec stands on moves them and nothing else does; pinned tables stand for their stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlspec.cli.group import rlc
from rlspec.compiler import library, locks
from rlspec.compiler.check import check
from rlspec.compiler.locks import (
    Pin,
    lock_of,
    lock_path,
    moved,
    pinned,
    pins_of,
    read_lock,
    results_in,
    unproven,
    verify,
)
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.parser import read

SAMPLE = (Path(__file__).parents[1] / "sample.rlspec").read_text()
TIERS = ("gold", "soft", "read", "state", "msg", "err", "dup")
IRC = """rlspec = 1
experiment calibrated {
  policy agent : tiny { width = 32  layers = 2 }
  env desk : shop { }
  user customer : agenda { serves = [desk] }
  judge tiers : tiers { on = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
  reward r : real@turn = calibrate.weight[tier]
  advantage A : real@turn = std.gtpo(r, outcome, 0.9, 0.3)
  credit = agent_tokens(A)
  stage coldstart : sft { }
  stage calibrate : irc { signal = tier  outcome = outcome }
  stage train : grpo { }
}
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(rlc, list(words))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec that extends another, uses definitions, and names a local file."""
    (tmp_path / "base.rlspec").write_text(SAMPLE)
    (tmp_path / "shapes.rlspec").write_text("rlspec = 1\ndef half(x : real@traj) : real@traj = x / 2\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text("{}\n")
    path = tmp_path / "spec.rlspec"
    path.write_text(
        'rlspec = 1\nuse shapes = "shapes.rlspec"\nexperiment child extends "base.rlspec" {\n'
        "  patch.reward.R : real@traj = shapes.half(outcome) - 0.1 * indicator(any(verdict == -1 over turn))\n"
        '  patch.policy.agent : hf { model = "data" }\n}\n'
    )
    return path


def refused(path: Path) -> tuple[str, ...]:
    with pytest.raises(SpecError) as error:
        verify(read(path))
    (found,) = error.value.diagnostics
    assert found.code == "RLC0713"
    return found.notes


def locked(path: Path) -> None:
    done = run("lock", str(path))
    assert done.exit_code == 0, done.output + repr(done.exception)
    verify(read(path))


def test_a_lock_names_files_definitions_and_data(spec: Path) -> None:
    lock = lock_of(read(spec))
    assert list(lock["spec"]) == ["base.rlspec", "shapes.rlspec", "spec.rlspec"]
    assert "std.grpo" in lock["library"]
    assert lock["data"]["data"].startswith("tree:")
    assert str(spec.parent) not in json.dumps(lock)


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        ("spec.rlspec", "0.1 *", "0.2 *", "spec spec.rlspec"),
        ("base.rlspec", "lr = 3e-4", "lr = 1e-4", "spec base.rlspec"),
        ("shapes.rlspec", "x / 2", "x / 4", "spec shapes.rlspec"),
        ("data/a.jsonl", "{}", "{ }", "data data"),
    ],
)
def test_what_moves_is_said(spec: Path, file: str, old: str, new: str, what: str) -> None:
    locked(spec)
    path = spec.parent / file
    path.write_text(path.read_text().replace(old, new, 1))
    assert refused(spec)[0].startswith(f"{what}: ")
    assert run("check", "--locked", str(spec)).exit_code == 2
    assert run("lock", "--check", str(spec)).exit_code == 2


def test_comments_and_layout_move_nothing(spec: Path) -> None:
    locked(spec)
    for name in ("spec.rlspec", "base.rlspec", "shapes.rlspec"):
        path = spec.parent / name
        path.write_text("# hello\n" + path.read_text().replace("  ", "   "))
    verify(read(spec))


def test_another_default_of_rlspec_moves_the_value(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked(spec)
    lock = read_lock(spec)
    lock_path(spec).write_text(json.dumps({**lock, "value": "v1:0"}))
    assert "another rlspec" in refused(spec)[0]


def test_a_definition_of_the_library_moves_only_its_users(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked(spec)
    changed = dict(library.standard())
    changed["std.unheard_of"] = changed["std.rloo"]
    monkeypatch.setattr(locks, "standard", lambda: changed)
    verify(read(spec))
    changed["std.grpo"] = changed["std.rloo"]
    assert refused(spec)[0].startswith("library std.grpo: ")


def test_without_a_lock_there_is_a_cure(spec: Path) -> None:
    assert refused(spec)[-1] == "make one with `rlc lock`"
    lock_path(spec).write_text("{}")
    assert refused(spec)[-1] == "make it again with `rlc lock`"


# ------------------------------------------------------------------------------------------------------------ pins


def results(folder: Path, values: dict[str, float]) -> Path:
    out = folder / "runs" / "x"
    (out / "results").mkdir(parents=True, exist_ok=True)
    body = {"format": "rlspec.results/1", "stage": "calibrate", "kind": "irc", "results": {"weight": values}}
    (out / "results" / "calibrate.json").write_text(json.dumps(body))
    (out / "versions.json").write_text(json.dumps({"plan_digest": "p1:abc"}))
    return out


def test_a_pinned_table_stands_for_its_stage(tmp_path: Path) -> None:
    path = tmp_path / "irc.rlspec"
    path.write_text(IRC)
    weights = {tier: n / 10 for n, tier in enumerate(TIERS)}
    done = run("freeze", str(path), "--run", str(results(tmp_path, dict(reversed(weights.items())))))
    assert done.exit_code == 0, done.output
    lock = verify(read(path))
    assert pins_of(lock)["calibrate.weight"] == Pin(weights, "p1:abc")
    plan = check(read(path)).plan
    assert plan is not None
    assert locks.still_open(plan) == ["calibrate.weight"]
    fixed = pinned(plan, pins_of(lock))
    assert locks.still_open(fixed) == []
    assert [s.label for s in fixed.stages] == ["coldstart", "train"]
    assert [b.stage for b in fixed.budget] == ["coldstart", "train"]
    assert fixed.stages[-1].policy_from == "coldstart"
    assert not any("calibrate" in e.source + e.target for e in fixed.graph.edges)
    lookups = [s for s in fixed.sources[0].program.steps if s.op == "lookup"]
    assert [s.attrs["values"] for s in lookups] == [list(weights.values())] * len(lookups)
    assert fixed.digest != plan.digest


def test_locked_plans_are_pinned_and_say_so(tmp_path: Path) -> None:
    from rlspec.cli.run import load_plan

    path = tmp_path / "irc.rlspec"
    path.write_text(IRC)
    run("freeze", str(path), "--run", str(results(tmp_path, dict.fromkeys(TIERS, 0.5))))
    plan, text = load_plan(path, (), None, locked=True)
    assert [s.label for s in plan.stages] == ["coldstart", "train"]
    assert text.startswith('# pinned: calibrate.weight = {"gold": 0.5')
    assert [s.label for s in load_plan(path, (), None)[0].stages] == ["coldstart", "calibrate", "train"]


def test_locking_again_keeps_the_pins(tmp_path: Path) -> None:
    path = tmp_path / "irc.rlspec"
    path.write_text(IRC)
    run("freeze", str(path), "--run", str(results(tmp_path, dict.fromkeys(TIERS, 0.5))))
    path.write_text(IRC.replace("0.9, 0.3", "0.9, 0.4"))
    locked(path)
    assert "calibrate.weight" in pins_of(read_lock(path))


@pytest.mark.parametrize("values", [dict.fromkeys(TIERS[:-1], 0.1), {**dict.fromkeys(TIERS, 0.1), "other": 1.0}])
def test_a_table_of_other_choices_is_refused(tmp_path: Path, values: dict[str, float]) -> None:
    path = tmp_path / "irc.rlspec"
    path.write_text(IRC)
    done = run("freeze", str(path), "--run", str(results(tmp_path, values)))
    assert isinstance(done.exception, SpecError)
    assert done.exception.diagnostics[0].code == "RLC0713"
    assert not lock_path(path).exists()


def test_a_frozen_weight_without_evidence_is_told(tmp_path: Path) -> None:
    run = results(tmp_path, dict.fromkeys(TIERS, 0.0))
    assert unproven(run) == []
    path = run / "results" / "calibrate.json"
    shares = dict.fromkeys(TIERS, 0.5) | {"dup": 0.0, "msg": 1.0}
    rows = [
        {"choice": tier, "trajectories": 64, "share": share, "evidence": 0 < share < 1, "rho": 0.0}
        for tier, share in shares.items()
    ]
    path.write_text(json.dumps({**json.loads(path.read_text()), "report": {"rounds": [{"rows": []}, {"rows": rows}]}}))
    (found,) = unproven(run)
    assert found.code == "RLC0533"
    assert "`msg`, `dup`" in found.message
    assert found.notes == ("msg: in 100% of 64 trajectories", "dup: in 0% of 64 trajectories")


def test_results_that_are_missing_or_damaged_are_told(tmp_path: Path) -> None:
    for text, code in ((None, "RLC0705"), ("{", "RLC0706"), ('{"format": "x"}', "RLC0706")):
        out = tmp_path / "run"
        (out / "results").mkdir(parents=True, exist_ok=True)
        if text is not None:
            (out / "results" / "calibrate.json").write_text(text)
        with pytest.raises(SpecError) as error:
            results_in(out)
        assert error.value.diagnostics[0].code == code


def test_a_spec_with_errors_is_not_locked(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        lock_of(Source(str(tmp_path / "x.rlspec"), SAMPLE.replace("width = 64", "widht = 64")))


def test_moved_is_empty_for_equal_locks(spec: Path) -> None:
    assert moved(lock_of(read(spec)), lock_of(read(spec))) == []
