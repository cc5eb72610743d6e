"""`rlc fix`: every rewrite of edition 0; comments kept; done twice is done once; what is written can be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlspec.cli.fix import fix
from rlspec.compiler import editions
from rlspec.compiler.check import check, check_whole
from rlspec.compiler.editions import brought_forward
from rlspec.dsl.diagnostics import Source, SpecError, render
from rlspec.dsl.format import formatted
from rlspec.dsl.parser import parse

ROOT = Path(__file__).parents[2]
OLD = sorted((ROOT / "tests" / "editions").glob("*.rlspec"))


def comments(text: str) -> Counter[str]:
    return Counter(c.text.strip() for c in parse(Source("", text))[0].comments)


@pytest.mark.parametrize("path", OLD, ids=lambda p: p.stem)
def test_old_specs_compile_afterwards(path: Path) -> None:
    text = path.read_text()
    found = brought_forward(Source(path.name, text))
    assert comments(found.text) == comments(text)
    assert found.kept == []
    fixed = check(Source(path.name, found.text))
    assert fixed.plan is not None, [render(d, fixed.source) for d in fixed.errors]
    before = {d.code for d in check_whole(Source(path.name, text)).diagnostics if d.severity == "error"}
    assert "RLC0009" in before
    assert "RLC0009" not in {d.code for d in check_whole(fixed.source).diagnostics}


@pytest.mark.parametrize("path", OLD, ids=lambda p: p.stem)
def test_done_twice_is_done_once(path: Path) -> None:
    once = brought_forward(Source(path.name, path.read_text())).text
    assert brought_forward(Source(path.name, once)).text == once
    again = brought_forward(Source(path.name, re.sub(r"rlspec = 1", "rlspec = 0", once, count=1)))
    assert again.text == once  # the new spellings are nobody's old ones
    assert [about for _, about in again.done] == ["edition 0 -> 1"]


def test_every_rule_is_used_by_the_old_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()

    def heard(rule: editions.Rule) -> editions.Rule:
        def listening(place: editions._Place) -> Iterator[editions.Rewrite]:
            for rewrite in rule(place):
                used.add(rule.__name__)
                yield rewrite

        return listening

    monkeypatch.setattr(editions, "RULES", tuple(heard(r) for r in editions.RULES))
    done = {about for path in OLD for _, about in brought_forward(Source("", path.read_text())).done}
    assert len(done) >= 14
    assert len(used) == len(editions.RULES) >= 13


def test_a_formatted_file_stays_formatted() -> None:
    for path in OLD:
        tidy = formatted(Source("", path.read_text()))
        new = brought_forward(Source("", tidy)).text
        assert formatted(Source("", new)) == new


def test_a_rewrite_that_would_lose_a_comment_is_not_made() -> None:
    text = (ROOT / "tests" / "editions" / "irc_and_fission.rlspec").read_text()
    inner = text.replace("rollouts(policy = start, episodes", "rollouts(policy = start,  # as it is\n    episodes")
    found = brought_forward(Source("", inner))
    assert "# as it is" in found.text
    assert [about for _, about in found.kept] == ["from = rollouts(...) -> episodes"]


def test_the_present_edition_is_left_alone() -> None:
    text = "rlspec = 1\nexperiment x { stage train : grpo { kl = 0.001 } }\n"
    assert brought_forward(Source("", text)).text == text


@pytest.mark.parametrize(("line", "said"), [("rlspec = 2", "edition 2"), ("", "no edition"), ("rlspec = 0.5", "no")])
def test_other_editions_are_refused(line: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        brought_forward(Source("", f"{line}\nexperiment x {{ }}\n"))
    assert refused.value.diagnostics[0].code == "RLC0009"
    assert said in refused.value.diagnostics[0].message


def test_the_command_writes_checks_and_says_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "old.rlspec"
    path.write_text((ROOT / "tests" / "editions" / "codegym.rlspec").read_text())
    before = path.read_text()
    first = CliRunner().invoke(fix, [str(path), "--check"])
    assert (first.exit_code, path.read_text()) == (1, before)
    assert f"{path}:5: author = llm(model) -> author, model\n" in first.output
    assert CliRunner().invoke(fix, [str(path)]).exit_code == 0
    assert path.read_text().startswith("rlspec = 1\n")
    again = CliRunner().invoke(fix, [str(path), "--check"])
    assert (again.exit_code, again.output) == (0, f"{path}: nothing to do\n")
    path.write_text(before.replace("solutions = 10", "solutions = 10  epochs = 25"))
    left = CliRunner().invoke(fix, [str(path)])
    assert left.exit_code == 2
    assert "1 left to do by hand" in left.output
    assert "`codegym` has no field `epochs`" in left.output


def test_a_file_with_syntax_errors_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "old.rlspec"
    path.write_text("rlspec = 0\nexperiment x { kl = = 1 }\n")
    assert CliRunner().invoke(fix, [str(path)]).exit_code == 2
    assert path.read_text() == "rlspec = 0\nexperiment x { kl = = 1 }\n"
