"""`rlc check --fix`: what is offered cures its mistake and nothing else; what may mean two things is left alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlspec.cli.check import check
from rlspec.compiler.check import check_whole
from rlspec.dsl.cures import _CURES
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError
from rlspec.dsl.explanations import completed, explanations
from rlspec.dsl.fixes import applied

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
TITLE = '"A shop assistant that asks before it acts"'

# what is written for what, and the code of the mistake
CURED = {
    "field": ("layers = 3", "layerz = 3", "RLC0104"),
    "unit in the singular": ("steps = 200steps", "steps = 200step", "RLC0305"),
    "unit with a capital": ("16agent_turns", "16Agent_turns", "RLC0305"),
    "unit misspelt": ("384tokens", "384tokns", "RLC0305"),
    "unit of trajectories": ("4_000trajs", "4_000traj", "RLC0305"),
    "choice in quotes": ("split = test", 'split = "test"', "RLC0202"),
    "choice misspelt": ("split = test", "split = tets", "RLC0202"),
    "measure": ("env.verified", "env.verifyed", "RLC0109"),
    "function": ("std.grpo(", "std.grppo(", "RLC0107"),
    "kind": ("judge turns", "jugde turns", "RLC0102"),
    "label": ("on = [desk]", "on = [dsek]", "RLC0101"),
    "axis": ("any(verdict == -1 over turn)", "any(verdict == -1 over turns)", "RLC0302"),
    "level of another language": ("A : real@traj", "A : real@trajectory", "RLC0302"),
    "type of another language": ("A : real@traj", "A : float@traj", "RLC0204"),
    "doubled sign": ("lr = 3e-4", "lr == 3e-4", "RLC0005"),
    "colon": ("lr = 3e-4", "lr: 3e-4", "RLC0005"),
    "colon apart": ("lr = 3e-4", "lr : 3e-4", "RLC0005"),
    "colon before a text": (f"title = {TITLE}", f"title: {TITLE}", "RLC0005"),
    "comma": ("steps = 200steps  ", "steps = 200steps,  ", "RLC0005"),
    "comma at the end of a line": ("checkpoint_every = 20steps", "checkpoint_every = 20steps,", "RLC0005"),
    "semicolon": ("layers = 3  ", "layers = 3;  ", "RLC0003"),
    "percent apart": ("reveal = 35%", "reveal = 35 %", "RLC0003"),
    "round opening": ("agent : tiny {", "agent : tiny (", "RLC0006"),
    "round brackets": ("sft { demonstrations = 4_000trajs  batch = 32trajs  lr = 4e-3 }",
                       "sft ( demonstrations = 4_000trajs  batch = 32trajs  lr = 4e-3 )", "RLC0005"),
    "single quotes": (TITLE, TITLE.replace('"', "'"), "RLC0003"),
    "curled quotes": (TITLE, f"“{TITLE[1:-1]}”", "RLC0003"),
    "dash": ("- 0.1 *", "– 0.1 *", "RLC0003"),
    "comment of another language": ("# One scalar", "// One scalar", "RLC0003"),
    "equals before a block": ("agent : tiny {", "agent : tiny = {", "RLC0005"),
}  # fmt: skip

# No edit is safe: several readings are left, or a value would be invented.
LEFT = {
    "turns of whom": ("16agent_turns", "16turns"),
    "another unit": ("384tokens", "384agent_turns"),
    "set or interval": ("verdict in {0, 1}", "verdict in [0, 1]"),
    "no value": ("lr = 3e-4", "lr ="),
    "a field of another name": ("lr = 3e-4", "learning_rate = 3e-4"),
    "a short label": ("agent_tokens(A)", "agent_tokens(B)"),
    "another text": ("split = test", 'split = "exam"'),
    "a colon before a word": ("split = test", "split: test"),
}


def ran(*words: str | Path) -> Result:
    return CliRunner().invoke(check, [str(word) for word in words])


def diagnostics(text: str) -> list[Diagnostic]:
    try:
        return check_whole(Source("spec.rlspec", text)).diagnostics
    except SpecError as error:
        return list(error.diagnostics)


@pytest.mark.parametrize(("right", "wrong", "code"), CURED.values(), ids=CURED.keys())
def test_a_fix_cures_its_mistake_and_changes_nothing_else(right: str, wrong: str, code: str, tmp_path: Path) -> None:
    assert SAMPLE.count(right) == 1
    path = tmp_path / "spec.rlspec"
    path.write_text(SAMPLE.replace(right, wrong))
    assert code in [d.code for d in diagnostics(path.read_text()) if d.fix is not None]
    done = ran("--fix", path)
    assert done.exit_code == 0, done.output
    fixed = path.read_text()
    assert fixed.replace(" : 3e-4", " = 3e-4").replace("lr  =", "lr =") == SAMPLE, done.output
    assert diagnostics(fixed) == []
    assert ran("--fix", path).stdout.strip() == f"{path}: ok"


@pytest.mark.parametrize(("right", "wrong"), LEFT.values(), ids=LEFT.keys())
def test_what_may_mean_two_things_is_left_as_it_is(right: str, wrong: str, tmp_path: Path) -> None:
    assert right in SAMPLE
    path = tmp_path / "spec.rlspec"
    path.write_text(SAMPLE.replace(right, wrong, 1))
    before = path.read_text()
    assert ran("--fix", path).exit_code == 2
    assert path.read_text() == before


def test_every_cure_that_is_read_off_the_text_is_among_the_cases() -> None:
    assert {code for _, _, code in CURED.values()} >= set(_CURES)


def test_all_of_them_at_once(tmp_path: Path) -> None:
    """One on each line, as the parser reports one fault of a line; a fix that uncovers another is followed by it."""
    path = tmp_path / "spec.rlspec"
    text, lines = SAMPLE, set()
    for right, wrong, _ in CURED.values():
        line = SAMPLE[: SAMPLE.index(right)].count("\n")
        if line not in lines and right in text:
            lines.add(line)
            text = text.replace(right, wrong, 1)
    assert len(lines) >= 10
    path.write_text(text)
    assert ran("--fix", path).exit_code == 0, path.read_text()
    assert path.read_text() == SAMPLE


EXPLAINED = {code: completed(e.bad) for code, e in explanations().items() if e.bad is not None}
OFFERING = {code: text for code, text in EXPLAINED.items() if any(d.fix for d in diagnostics(text))}


@pytest.mark.parametrize(("code", "text"), OFFERING.items(), ids=OFFERING.keys())
def test_a_fix_of_an_explained_mistake_cures_it(code: str, text: str) -> None:
    fixes = [d.fix for d in diagnostics(text) if d.fix is not None]
    fixed, made = applied(text, fixes)
    assert made == len(set(fixes))
    assert code not in [d.code for d in diagnostics(fixed)]
    assert re.sub(r"\s", "", fixed) != re.sub(r"\s", "", text)


def test_several_explained_mistakes_offer_a_fix() -> None:
    assert {"RLC0003", "RLC0101", "RLC0107", "RLC0111", "RLC0202", "RLC0302"} <= OFFERING.keys()
