"""Specs in tests: changed where it is said, checked, and lowered to plans."""

from __future__ import annotations

from rlspec.compiler.check import Checked, check
from rlspec.compiler.plan import Plan
from rlspec.dsl.diagnostics import Source, render


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """A text with other passages, each of which must be there; where one stands more than once it is its first."""
    for old, new in changes:
        assert old in text, f"the spec no longer says {old!r}"
        text = text.replace(old, new, 1)
    return text


def checked(text: str) -> Checked:
    """What a check finds."""
    return check(Source("test.rlspec", text))


def codes(text: str) -> list[str]:
    """The codes of everything that a check says, warnings too."""
    return [d.code for d in checked(text).diagnostics]


def plan_of(spec: str | Checked) -> Plan:
    """The plan of a spec that must have one."""
    found = checked(spec) if isinstance(spec, str) else spec
    assert found.plan is not None, [render(d, found.source) for d in found.errors]
    return found.plan
