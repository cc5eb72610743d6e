"""Cold starts are shared by all experiments whose demonstrations are the same, and by no others."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlspec.compiler.check import check
from rlspec.compiler.plan import ComponentPlan, Plan
from rlspec.dsl.parser import read
from rlspec.runtime.coldstart import cache_entry, shown_by

MINI = (Path(__file__).parents[1] / "mini.rlspec").read_text()
LIVE = "  user live : agenda { serves = [desk] }\n  stage coldstart"


def plan_of(text: str, folder: Path) -> Plan:
    path = folder / "mini.rlspec"
    path.write_text(text)
    found = check(read(path))
    assert found.plan is not None, found.errors
    return found.plan


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"env desk": "env counter", "[desk]": "[counter]"}, True),
        ({"max_turns = 8": "verifier = write_operations  max_turns = 8"}, True),
        ({"flip = 30%": "flip = 10%", "std.grpo(R)": "zscore(R over traj)"}, True),
        ({": agenda": ": static", "  stage coldstart": LIVE, "tasks = 3tasks": "user = live  tasks = 3tasks"}, True),
        ({": agenda {": ": agenda { reveal = 90%  "}, False),
        ({"difficulty = 0": "difficulty = 1"}, False),
        ({"flip = 30%": 'when = during_rollout  objection = "look again , please"'}, False),
    ],
)
def test_what_is_shown_depends_on_the_talks_alone(changes: dict[str, str], same: bool, tmp_path: Path) -> None:
    text = MINI
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert (shown_by(plan_of(text, tmp_path)) == shown_by(plan_of(MINI, tmp_path))) is same


def test_what_stands_in_a_file_counts_not_only_its_name(tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    text = (Path(__file__).parents[1] / "mixed.rlspec").read_text()
    source = re.search(r'source = "[^"]*"', text)
    assert source is not None
    text = text.replace(source[0], f'source = "{problems}"')
    problems.write_text('{"problem": "1 + 1", "answer": "2"}\n')
    before = shown_by(plan_of(text, tmp_path))
    assert shown_by(plan_of(text, tmp_path)) == before
    problems.write_text('{"problem": "1 + 2", "answer": "3"}\n')
    assert shown_by(plan_of(text, tmp_path)) != before


def test_another_file_of_the_same_name_is_another_cold_start(tmp_path: Path) -> None:
    run = SimpleNamespace(plan=plan_of(MINI, tmp_path), trainers=["trainer.0"])
    env = run.plan.envs[0]
    made = tmp_path / "talks"
    made.mkdir()
    fields = {"from": "", "source": str(made), "distilled": str(tmp_path / "talks.jsonl")}
    gym = ComponentPlan(label=env.label, kind="env", name="codegym", fields=fields)
    run.plan = run.plan.model_copy(update={"envs": (gym,)})
    entries = set()
    for text in ("a", "b", "b"):
        (tmp_path / "talks.jsonl").write_text(text)
        entries.add(cache_entry(run))  # type: ignore[arg-type]
    (made / "tasks.json").write_text("c")
    entries.add(cache_entry(run))  # type: ignore[arg-type]
    assert len(entries) == 3


def test_shares_count_only_where_demonstrations_are_mixed_by_them(tmp_path: Path) -> None:
    second = "env other : shop { difficulty = 1 }\n  user again : agenda { serves = [other] }\n  judge"
    two = MINI.replace("judge", f"{second}", 1).replace("oracle { on = [desk]", "oracle { on = [desk, other]")
    two = two.replace("  advantage", "  mix tasks { desk = 50%  other = 50% }\n  advantage")
    for text, same in ((two, True), ((Path(__file__).parents[1] / "mixed.rlspec").read_text(), False)):
        assert text.count("= 50%") == 2
        other = text.replace("= 50%", "= 10%", 1).replace("= 50%", "= 90%", 1)
        assert (shown_by(plan_of(text, tmp_path)) == shown_by(plan_of(other, tmp_path))) is same
