"""Who watches a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Reporter(Protocol):
    """Is told what a run does."""

    def begin(self, what: str, total: int | None) -> None:
        """A unit of work of so many steps (None: not known) begins."""

    def line(self, metrics: Mapping[str, Any]) -> None:
        """A line of metrics was recorded."""

    def note(self, text: str) -> None:
        """Something that a user should know."""


class Unwatched(Reporter):
    """Nobody watches."""
