"""A component that was read is not read again, and is what it would be if it were."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler import components
from rlspec.compiler.check import Checked, check
from rlspec.dsl import parser, tree
from rlspec.dsl.diagnostics import Diagnostic, Source

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text("utf-8")
PAPERS = sorted((ROOT / "specs" / "papers").glob("*.rlspec"))


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_READ", {})


def said(found: Checked) -> tuple[list[Diagnostic], str | None]:
    return found.diagnostics, found.plan.digest if found.plan is not None else None


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_variants_are_the_same_whatever_was_read_before(path: Path) -> None:
    source = parser.read(path)
    names = [None, *check(source).composition.variants]
    assert components._READ
    after = {name: said(check(source, variant=name)) for name in names}
    for name in names[:4]:
        components._READ.clear()
        assert said(check(source, variant=name)) == after[name], name


def test_another_param_is_another_value() -> None:
    text = SAMPLE.replace("policy", "param width : int in [8, 512] = 64\n  policy", 1)
    text = text.replace("width = 64 ", "width = width ", 1)
    widths = []
    for value in (None, 32.0, 64.0):
        number = tree.Number(value or 0.0, "", True, str(value), tree.Span(0, 2))
        found = check(Source("a", text), {} if value is None else {"width": number})
        assert found.experiment is not None
        widths.append(found.experiment.of("policy")["agent"].made.width)
    assert widths == [64, 32, 64]


def test_a_label_that_is_gone_is_missed() -> None:
    text = SAMPLE.rstrip().removesuffix("}")
    text += "\n  variant later {\n    remove = [stage.train]\n  }\n  stage last : evaluate { after = [train] }\n}\n"
    source = Source("a", text)
    assert not any("`train`" in d.message for d in check(source).diagnostics)
    for _ in range(2):
        assert any("`train`" in d.message for d in check(source, variant="later").diagnostics)
    assert not any("`train`" in d.message for d in check(source).diagnostics)


def test_what_was_wrong_is_said_again() -> None:
    source = Source("a", SAMPLE.replace("lr = 3e-4", "lr = -1", 1))
    first, second = check(source).diagnostics, check(source).diagnostics
    assert first == second
    assert any(d.code == "RLC0401" for d in first)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "MOST_READ", 10)
    for number in range(5):
        check(Source("a", f"# {number}\n{SAMPLE}"))
        assert 0 < len(components._READ) <= 10
