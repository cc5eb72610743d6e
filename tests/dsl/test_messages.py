"""The reports in messages.md are what the parser says, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlspec.dsl.diagnostics import Source, as_json, render
from rlspec.dsl.parser import parse

SECTION = re.compile(r"^## (.+?)\n\n```rlspec\n(.*?)\n```\n\n```text\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
SECTIONS = SECTION.findall(Path(__file__).with_name("messages.md").read_text("utf-8"))


@pytest.mark.parametrize(("text", "report"), [s[1:] for s in SECTIONS], ids=[s[0] for s in SECTIONS])
def test_the_report_is_the_one_that_was_written_down(text: str, report: str) -> None:
    _, diagnostics = parse(Source("bad.rlspec", text + "\n"))
    assert "\n".join(render(d) for d in diagnostics) == report


def test_there_are_reports_for_many_faults() -> None:
    assert len(SECTIONS) >= 40


@pytest.mark.parametrize("text", [s[1] for s in SECTIONS if "RLC0008" not in s[2]], ids=lambda text: text[:20])
def test_one_fault_is_reported_once_a_line(text: str) -> None:
    _, diagnostics = parse(Source("bad.rlspec", text + "\n"))
    places = [as_json(d)["line"] for d in diagnostics if d.code != "RLC0003"]
    assert len(places) == len(set(places))


@pytest.mark.parametrize(
    ("text", "cured"),
    [
        ("R = sum(v ovr turn)\n", "R = sum(v over turn)\n"),
        ("R = a adn b\nS = 1\n", "R = a and b\nS = 1\n"),
        ("title = 'TARL'\n", 'title = "TARL"\n'),
        ("ok = a && b\n", "ok = a  and  b\n"),
        ("ok = a ≤ b\n", "ok = a <= b\n"),
        ("env shop = { n = 1 }\n", "env shop { n = 1 }\n"),
    ],
)
def test_a_fix_cures_what_it_is_offered_for(text: str, cured: str) -> None:
    for diagnostic in reversed(parse(Source("bad.rlspec", text))[1]):
        fix = diagnostic.fix
        assert fix is not None
        text = text[: fix.span.start] + fix.text + text[fix.span.stop :]
    assert text == cured
    assert not parse(Source("bad.rlspec", text))[1]
