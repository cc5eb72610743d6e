"""Definitions, references and rename."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlspec.editor import edits, navigate
from rlspec.editor.document import Document

Marked = Callable[[str], tuple[Document, int]]

TWO = """rlspec = 1
def scaled(x : real@traj, k : real = 2) : real@traj = k * x
experiment e {
  env one : shop { }
  env two : shop { }
  mix tasks { one = 0.5  two = 0.5 }
  signal outcome : int@traj in {0, 1} = env.verified
  reward R : real@traj on one = scaled(outcome, k = 3)
  reward R : real@traj on two = scaled(outcome)
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
}
"""


def words(document: Document, spans: list) -> list[str]:
    return [document.text[s.start : s.stop] for s in spans]


def renamed(text: str, offset: int, name: str) -> str:
    document = Document(text)
    return edits.applied(text, edits.rename(document, offset, name))


def test_a_name_leads_to_its_declaration(sample: str) -> None:
    (place,) = navigate.definition(Document(sample), sample.index("verdict == -1") + 3)
    assert sample[place.span.start :].startswith("verdict : int@turn")


def test_a_reward_of_two_environments_leads_to_both() -> None:
    places = navigate.definition(Document(TWO), TWO.index("grpo(R)") + 5)
    assert [p.span.start for p in places] == [TWO.index("R : real@traj on one"), TWO.index("R : real@traj on two")]


def test_the_standard_library_opens_in_its_own_file(sample: str) -> None:
    (place,) = navigate.definition(Document(sample), sample.index("std.grpo") + 6)
    assert place.path is not None
    assert place.path.read_text(encoding="utf-8")[place.span.start :].startswith("grpo(")


def test_references_are_uses_and_declaration(sample: str) -> None:
    document = Document(sample)
    offset = sample.index("signal verdict") + 8
    assert words(document, navigate.references(document, offset)) == ["verdict"] * 4
    assert len(navigate.references(document, offset, declared=False)) == 3


def test_a_choice_is_no_reference() -> None:
    text = TWO.replace(
        "  credit", "  stage test : evaluate { split = test }\n  stage b : evaluate { after = [test] }\n  credit"
    )
    document = Document(text)
    assert len(navigate.references(document, text.index("stage test") + 7)) == 2


def test_rename_changes_every_place_and_nothing_else(sample: str) -> None:
    after = renamed(sample, sample.index("signal verdict") + 8, "score_of_turn")
    assert after.count("score_of_turn") == 4
    assert after.replace("score_of_turn", "verdict") == sample
    assert not Document(after).diagnostics


def test_rename_of_a_component_follows_wiring_and_measures(sample: str) -> None:
    after = renamed(sample, sample.index("judge turns") + 8, "critic")
    assert "judge critic : oracle" in after
    assert "critic.score" in after


def test_rename_of_a_parameter_follows_named_arguments() -> None:
    after = renamed(TWO, TWO.index("k : real"), "factor")
    assert "scaled(x : real@traj, factor : real = 2) : real@traj = factor * x" in after
    assert "scaled(outcome, factor = 3)" in after


def test_rename_of_an_environment_follows_on_and_mix() -> None:
    after = renamed(TWO, TWO.index("env one") + 5, "first")
    assert "mix tasks { first = 0.5" in after
    assert "on first =" in after


@pytest.mark.parametrize("name", ["outcome", "over", "2x", "", "a b"])
def test_rename_refuses_what_would_mean_something_else(sample: str, name: str) -> None:
    with pytest.raises(edits.CannotRename):
        edits.rename(Document(sample), sample.index("signal verdict") + 8, name)


def test_rename_refuses_to_capture_a_parameter() -> None:
    with pytest.raises(edits.CannotRename):
        edits.rename(Document(TWO), TWO.index("k : real"), "x")


def test_the_outline_nests_as_the_file_does(sample: str) -> None:
    edition, experiment = navigate.outline(Document(sample))
    assert (edition.name, experiment.name, experiment.sort) == ("rlspec", "sample", "experiment")
    assert "verdict" in [entry.name for entry in experiment.inside]


VARIANTS = """rlspec = 1
experiment e {
  env one : shop { }
  judge turns : oracle { on = [one] }
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  reward R : real@traj on one = sum(verdict over turn)
  advantage A : real@traj = std.grpo(R)
  variant a { patch.reward.R on one = 2 * sum(verdict over turn) }
  variant b {
    remove = [advantage.A, reward.R.one, env.one]
    advantage A : real@turn = zscore(verdict over (traj, turn))
  }
  variant c { patch.judge.turns.flip = 0.1 }
  test "t" { given.verdict = [1, -1]  expect none = R == 0 }
}
"""


@pytest.mark.parametrize(
    ("place", "within", "count"),
    [("env one", 4, 6), ("reward R", 7, 5), ("advantage A", 10, 3), ("judge turns", 6, 3), ("signal verdict", 7, 5)],
)
def test_patches_removals_and_tests_are_places_of_a_name(place: str, within: int, count: int) -> None:
    document = Document(VARIANTS)
    found = navigate.references(document, VARIANTS.index(place) + within)
    assert len(found) == count
    name = VARIANTS[found[0].start : found[0].stop]
    assert renamed(VARIANTS, VARIANTS.index(place) + within, "other").count("other") == count
    assert set(words(document, found)) == {name}
