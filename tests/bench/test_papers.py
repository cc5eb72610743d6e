"""The comparisons of the papers: the order of their runs, what a table makes of them, whether arms can be compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench" / "papers"))
import arms  # noqa: E402
import run  # noqa: E402
import table  # noqa: E402

from rlspec.cli.specs import sound  # noqa: E402
from rlspec.runtime.coldstart import shown_by  # noqa: E402

LIST = """
title = "A paper"
spec = "a.rlspec"
baseline = "plain"
evaluation = "exam"
overlays = ["small.rlspec"]
seeds = [0, 1, 2]
[[arm]]
label = "plain"
[[arm]]
label = "other"
variant = "v"
overlays = ["more.rlspec"]
[[column]]
title = "recovered"
metric = "again.recovered"
stage = "train"
percent = true
"""


def listed(folder: Path, name: str = "a", text: str = LIST) -> arms.Paper:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return arms.paper(path)


def ended(out: Path, arm: str, seed: int, success: float, status: int = 0) -> None:
    """The files that a run and the runner leave."""
    folder = out / "a" / arm / str(seed)
    folder.mkdir(parents=True)
    steps = [{"stage": "train", "step": n, "success": n / 20, "reward": 1, "trajectories": 8.0} for n in range(20)]
    for line in steps[10:]:
        line["again.recovered"] = 0.25
    exam = {"stage": "exam", "kind": "evaluation", "success": success, "desk.repeats": 0.5, "trajectories": 4.0}
    lines = [{**exam, "before": "train", "success": 0.1}, *steps, {**exam, "after": "train"}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "report.json").write_text(json.dumps({"seconds": {"imitate": 20, "learn": 70}, "wall_seconds": 100}))
    (out / "a" / arm / f"{seed}.json").write_text(json.dumps({"status": status, "cpu_seconds": 90.0}))


def test_seeds_come_first_and_comparisons_take_turns(tmp_path: Path) -> None:
    both = [listed(tmp_path, "a"), listed(tmp_path, "b", LIST.replace("[0, 1, 2]", "[1]"))]
    order = [(job.seed, job.arm.label, job.paper) for job in arms.jobs(both, tmp_path)]
    assert order[:2] == [(0, "plain", "a"), (0, "other", "a")]
    assert order[2:6] == [(1, "plain", "a"), (1, "plain", "b"), (1, "other", "a"), (1, "other", "b")]
    assert both[0].arms[1].words() == ["a.rlspec", "--variant", "v", "--with", "small.rlspec", "--with", "more.rlspec"]


def test_a_list_that_is_being_written_stops_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed(tmp_path)
    (tmp_path / "b.toml").write_text(LIST.replace('"plain"', '"nobody"', 1))
    assert [p.name for p in arms.papers(tmp_path)] == ["a"]
    assert "b.toml" in capsys.readouterr().err


def test_the_table_has_means_intervals_and_paired_differences(tmp_path: Path) -> None:
    found = listed(tmp_path)
    for seed, (plain, other) in enumerate([(0.5, 0.6), (0.6, 0.8), (0.7, 1.0)]):
        ended(tmp_path, "plain", seed, plain)
        ended(tmp_path, "other", seed, other)
    text = table.table(found, table.rows(found, tmp_path))
    heads, _, plain, other = (row.strip("| ").split(" | ") for row in text.splitlines()[:4])
    row = dict(zip(heads, other, strict=True))
    # t(2) = 4.303; deviations 0.2 and 0.1
    assert row["held-out success"] == "0.800 ± 0.497"
    assert row["against plain"] == "+0.200 ± 0.248"
    assert (row["own success"], row["recovered"], row["repeats"]) == ("72.5%", "25.0%", "0.50")
    assert (row["episodes"], row["CPU minutes"], row["of them imitating"]) == ("160", "1.5", "0.3")
    assert plain[3].strip() == ""
    assert "Before training: 0.100 ± 0.000, over 3 seeds." in text


def test_an_arm_that_begins_elsewhere_has_a_start_of_its_own(tmp_path: Path) -> None:
    found = listed(tmp_path)
    for seed in range(3):
        ended(tmp_path, "plain", seed, 0.5)
        ended(tmp_path, "other", seed, 0.6)
    learnt = {"stage": "coldstart", "step": 1, "loss": 0.05, "demonstration_tokens": 75.0}
    old, new = (f'"kind": "evaluation", "success": {value}, ' for value in (0.1, 0.3))
    for path in sorted((tmp_path / "a" / "plain").glob("*/metrics.jsonl")):
        path.write_text(json.dumps(learnt) + "\n" + path.read_text().replace(old, new))
    text = table.table(found, table.rows(found, tmp_path))
    assert "Before training: 0.300 ± 0.000, over 3 seeds." in text
    assert "Before training, other: 0.100 ± 0.000, over 3 seeds." in text


def test_any_arm_can_be_the_one_to_compare_with(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert table.main(["tarl", "--against", "per_turn", "--out", str(tmp_path)]) == 0
    assert "| against per_turn |" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        table.main(["tarl", "--against", "nobody", "--out", str(tmp_path)])
    assert caught.value.code == 2
    assert "per_turn_ppo" in capsys.readouterr().err


def test_an_arm_without_training_has_no_figures_of_it(tmp_path: Path) -> None:
    found = listed(tmp_path)
    for label in ("plain", "other"):
        ended(tmp_path, label, 0, 0.5)
    path = tmp_path / "a" / "other" / "0" / "metrics.jsonl"
    path.write_text(path.read_text().splitlines()[-1] + "\n")
    heads, _, _, other = table.table(found, table.rows(found, tmp_path)).splitlines()[:4]
    row = dict(zip(heads.strip("| ").split(" | "), other.strip("| ").split(" | "), strict=True))
    assert (row["own success"], row["recovered"], row["episodes"]) == ("-", "-", "0")
    assert (row["held-out success"], row["repeats"]) == ("0.500", "0.50")


def test_what_failed_or_has_not_ended_is_told(tmp_path: Path) -> None:
    found = listed(tmp_path)
    ended(tmp_path, "plain", 0, 0.5)
    ended(tmp_path, "other", 1, 0.9, status=2)
    text = table.table(found, table.rows(found, tmp_path))
    assert "| other | 0 (1 failed) | - | - |" in text
    assert "- failed: other, seed 1" in text
    assert "- not ended: plain, seeds 1, 2" in text


def test_a_run_that_fails_is_recorded_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = listed(tmp_path, text=LIST.replace("[0, 1, 2]", "[0]"))
    monkeypatch.setattr(run, "papers", lambda: [found])
    given = ["--out", str(tmp_path / "runs"), "--only", "plain"]
    assert run.main(given) == 1
    job = next(arms.jobs([found], tmp_path / "runs"))
    assert (job.outcome() or {})["status"] == 2
    assert "a.rlspec" in (job.folder.parent / "0.log").read_text()
    assert run.main(given) == 1
    assert capsys.readouterr().out.count("seed 0: status 2") == 1
    assert run.main([*given, "--again"]) == 1
    assert capsys.readouterr().out.count("seed 0: status 2") == 1


@pytest.mark.parametrize("name", [path.stem for path in sorted(arms.HERE.glob("*.toml"))])
def test_the_arms_of_a_paper_differ_in_what_is_compared_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    paper = arms.paper(arms.HERE / f"{name}.toml")
    plans = {}
    for arm in paper.arms:
        found = sound(Path(arm.spec), (), 0, arm.variant, tuple(map(Path, arm.overlays))).plan
        assert found is not None
        plans[arm.label] = found
    first = plans[paper.baseline]
    for plan in plans.values():
        assert plan.graph.bundles == first.graph.bundles
        exams = [next(s for s in p.stages if s.label == paper.evaluation).fields for p in (plan, first)]
        assert len({json.dumps({**e, "before": [], "after": []}, sort_keys=True) for e in exams}) == 1
        if name in ("mua_rl", "tarl", "mt_grpo_irc"):
            assert shown_by(plan) == shown_by(first)
            assert arm_without_reward(plan) or _episodes(plan) == _episodes(first)


def arm_without_reward(plan) -> bool:
    """Whether nothing is learned from rewards."""
    return not any(s.name in ("grpo", "ppo") for s in plan.stages)


def _episodes(plan) -> int:
    """What is sampled to learn from or to calibrate with, if a calibration ends in its first round."""
    fields = {s.name: s.fields for s in plan.stages}
    train = fields["grpo"] if "grpo" in fields else fields["ppo"]
    return train["steps"] * train["tasks_per_step"] * train["group"] + fields.get("irc", {"episodes": 0})["episodes"]
