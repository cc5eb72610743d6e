"""Merging specs, with the result checked: a merge that compiles less than its sides did is none."""

from __future__ import annotations

from rlspec.compiler.check import check_whole
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic, Source
from rlspec.dsl.merge import Conflict, merge


@dataclass(frozen=True, slots=True)
class Outcome:
    """`text` is always to be written. `errors` are those of the merged spec that neither side has alone."""

    text: str
    conflicts: tuple[Conflict, ...]
    errors: tuple[Diagnostic, ...]

    @property
    def clean(self) -> bool:
        return not self.conflicts and not self.errors


def merged(base: Source, ours: Source, theirs: Source, path: str) -> Outcome:
    """Merge, and check the result as the file at `path`, beside which its bases and imports stand.

    Raises:
        SpecError: a side has syntax errors.
    """
    found = merge(base, ours, theirs)
    if found.conflicts or found.text in (ours.text, theirs.text):
        return Outcome(found.text, found.conflicts, ())
    known = {_key(d) for side in (ours, theirs) for d in _errors(Source(path, side.text))}
    errors = [d for d in _errors(Source(path, found.text)) if _key(d) not in known]
    return Outcome(found.text, (), tuple(errors))


def _errors(source: Source) -> list[Diagnostic]:
    return [d for d in check_whole(source).diagnostics if d.severity == "error"]


def _key(diagnostic: Diagnostic) -> tuple[str, str]:
    return diagnostic.code, diagnostic.message
