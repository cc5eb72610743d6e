"""The curve of a comparison: where an evaluation took place, and means over steps of training."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench" / "papers"))

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
