"""Quick fixes and formatting; texts that are half typed or that break the checker."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.editor import document as documents
from rlspec.editor import edits, navigate
from rlspec.editor.deadline import TooSlow, deadline
from rlspec.editor.document import Document
from rlspec.editor.facts import Facts
from rlspec.editor.highlight import hints, painted
from rlspec.editor.hover import hover


def cured(text: str) -> str:
    document = Document(text)
    action = edits.actions(document, 0, len(text))[0]
    return edits.applied(text, action.edits)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("any(verdict", "any(verdct"),
        ("width = 64", "widht = 64"),
        ("agenda {", "agneda {"),
        ("std.grpo", "std.grop"),
        ("split = test", "split = tset"),
        ("verdict in {0, 1}", "verdict ∈ {0, 1}"),
        ("turns.score", "turns.scre"),
        ("int@turn in", "int@trn in"),
    ],
)
def test_a_near_name_is_one_key_away(sample: str, right: str, wrong: str) -> None:
    assert " ".join(cured(sample.replace(right, wrong, 1)).split()) == " ".join(sample.split())


def test_nothing_is_offered_where_nothing_is_wrong(sample: str) -> None:
    assert edits.actions(Document(sample), 0, len(sample)) == []


def test_formatting_touches_only_what_differs(sample: str) -> None:
    loose = sample.replace("env desk : shop {", "env desk  :  shop {")
    (edit,) = edits.formatted(Document(loose))
    assert edits.applied(loose, [edit]) == sample
    assert edit.span.stop - edit.span.start < 20
    assert edits.formatted(Document(sample)) == []


def test_a_file_that_cannot_be_read_is_not_formatted(sample: str) -> None:
    assert edits.formatted(Document(sample.replace("width = 64", "width = "))) == []


def test_an_endless_check_is_given_up(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_source: object) -> None:
        while True:
            time.sleep(0)

    monkeypatch.setattr(documents, "check", endless)
    monkeypatch.setattr(documents, "LIMIT", 0.1)
    document = Document(sample.replace("width = 64", "width = "))
    assert [d.code for d in document.diagnostics] == [d.code for d in document.parsed[1]] != []
    assert "given up" in document.trouble


def test_a_defect_of_the_checker_leaves_the_syntax_errors(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_source: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(documents, "check", broken)
    document = Document(sample.replace("width = 64", "width = "))
    assert document.diagnostics
    assert "KeyError" in document.trouble


def worked(seconds: float) -> None:
    before = time.process_time()
    while time.process_time() < before + seconds:
        pass


def test_a_deadline_that_is_met_raises_nothing() -> None:
    with deadline(0.02):
        pass
    worked(0.04)
    with pytest.raises(TooSlow), deadline(0.02):
        worked(10)


def test_a_deadline_counts_work_and_no_waiting() -> None:
    with deadline(0.02):
        time.sleep(0.1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1400), st.sampled_from(["", "{", "}", "(", '"', " = ", " over ", "@", "\n", "é", "\0", "std."]))
def test_no_keystroke_breaks_anything(at: int, typed: str) -> None:
    at = min(at, len(TEXT))
    document = Document(TEXT[:at] + typed + TEXT[at + 1 :])
    assert document.diagnostics is not None
    assert document.trouble == ""
    facts = Facts(document)
    hover(document, at, facts)
    navigate.definition(document, at)
    navigate.outline(document)
    painted(document)
    hints(document, facts, 0, len(document.text))
    edits.actions(document, 0, len(document.text))


TEXT = """rlspec = 1
def scaled(x : real@traj, k : real = 2) : real@traj = k * x
experiment e {
  policy agent : tiny { width = 64  layers = 3 }
  env desk : shop { difficulty = 1  max_turns = 16agent_turns }
  user customer : agenda { serves = [desk]  reveal = 35% }
  judge turns : oracle { on = [desk]  flip = 5%  on_failure = [retry(3), drop] }
  param w : real in [0, 1] = assumed(0.2, "why")
  signal outcome : int@traj in {0, 1}     = env.verified
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  reward R : real@traj in [-2, 3] = scaled(outcome, k = w) - w * indicator(any(verdict == -1 over turn))
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage cold : sft { demonstrations = 40trajs  stop.loss = 0.05 }
  stage train : grpo { tasks_per_step = 16tasks  group = 8trajs  steps = 200steps }
}
"""


def test_what_is_wrong_with_a_variant_only_is_in_the_whole() -> None:
    text = TEXT.rstrip().removesuffix("}") + "  variant odd { patch.stage.train.groop = 4 }\n}\n"
    document = Document(text)
    assert document.diagnostics == []
    assert document.whole != []
    assert document.trouble == ""
