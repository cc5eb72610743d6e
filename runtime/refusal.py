"""Refusals: a run cannot start, go on or be read, and the user can do something about it.

The command line prints the code, the reason and the cure and ends with status 2; a traceback is for bugs only.
"""

from __future__ import annotations


class Refusal(Exception):
    """`code` is registered in `rlspec.dsl.codes` (07: runs and files); `cure` says what to do."""

    def __init__(self, code: str, reason: str, cure: str = "") -> None:
        super().__init__(f"{code}: {reason}" + (f" ({cure})" if cure else ""))
        self.code, self.reason, self.cure = code, reason, cure

    def __reduce__(self) -> tuple[type[Refusal], tuple[str, str, str]]:
        """Refusals cross processes with all their parts."""
        return Refusal, (self.code, self.reason, self.cure)


class Interrupted(Exception):
    """The user asked to stop a run; everything up to here is saved."""
