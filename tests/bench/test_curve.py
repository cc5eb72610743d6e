"""The curve of a comparison: where an evaluation took place, and means over steps of training."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench" / "papers"))

import arms  # noqa: E402
import curve  # noqa: E402
import table  # noqa: E402


def test_an_evaluation_is_placed_by_its_step_and_training_in_stretches() -> None:
    exam = {"stage": "exam", "kind": "evaluation"}
    lines = [
        {**exam, "step": 0, "before": "train", "success": 0.1},
        *({"stage": "train", "step": n, "desk.dead_groups": n / 10} for n in range(4)),
        {**exam, "step": 1, "after": "train", "at_step": 2, "success": 0.2},
        {**exam, "step": 2, "after": "train", "success": 0.4},
    ]
    done = table.Done(lines, {}, {})
    assert curve.points(done, "exam", "success", 10) == {0: 0.1, 2: 0.2, 4: 0.4}
    assert curve.points(done, "train", "~dead_groups", 2) == {2: 0.05, 4: 0.25}
    assert curve.points(done, "train", "fission.success", 2) == {}
    assert done.value("first ~dead_groups", "train") == 0.15
    assert done.value("first success", "exam") == 0.1
    assert done.value("success", "exam") == 0.4


LIST = """
title = "A paper"
spec = "a.rlspec"
baseline = "plain"
evaluation = "exam"
seeds = [0, 1]
[[arm]]
label = "plain"
[[arm]]
label = "other"
[[arm]]
label = "third"
"""


def test_differences_are_seed_by_seed_and_arms_may_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.toml").write_text(LIST)
    monkeypatch.setattr(curve, "HERE", tmp_path)
    for arm, seed, success in (("plain", 0, 0.1), ("plain", 1, 0.5), ("other", 0, 0.3), ("other", 1, 0.7)):
        job = arms.Job("a", arms.paper(tmp_path / "a.toml").arms[0], seed, tmp_path / "a" / arm / str(seed))
        job.folder.mkdir(parents=True)
        line = {"stage": "exam", "kind": "evaluation", "after": "train", "success": success}
        (job.folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
        (job.folder / "report.json").write_text("{}")
        job.record.write_text('{"status": 0}')
    words = ["a", "--out", str(tmp_path), "--arms", "plain", "other", "--spread"]
    assert curve.main(words) == 0
    assert "| plain | 2 | 0.300 ± 2.541 |" in capsys.readouterr().out
    assert curve.main([*words, "--against", "plain"]) == 0
    shown = capsys.readouterr().out
    assert "| other | 2 | +0.200 ± 0.000 |" in shown
    assert "| plain |" not in shown
    with pytest.raises(SystemExit):
        curve.main([*words, "--against", "third"])
