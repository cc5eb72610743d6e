"""Cold starts are shared by all experiments whose demonstrations are the same, and by no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.dsl.parser import read
from rlspec.runtime.coldstart import shown_by

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


def test_shares_count_only_where_demonstrations_are_mixed_by_them(tmp_path: Path) -> None:
    second = "env other : shop { difficulty = 1 }\n  user again : agenda { serves = [other] }\n  judge"
    two = MINI.replace("judge", f"{second}", 1).replace("oracle { on = [desk]", "oracle { on = [desk, other]")
    two = two.replace("  advantage", "  mix tasks { desk = 50%  other = 50% }\n  advantage")
    for text, same in ((two, True), ((Path(__file__).parents[1] / "mixed.rlspec").read_text(), False)):
        assert text.count("= 50%") == 2
        other = text.replace("= 50%", "= 10%", 1).replace("= 50%", "= 90%", 1)
        assert (shown_by(plan_of(text, tmp_path)) == shown_by(plan_of(other, tmp_path))) is same
