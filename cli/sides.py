"""What `diff`, `compare` and `digest` take: a spec, a spec of a git revision, a stored plan, a run directory. `#name`
behind a spec takes one of its variants."""

from __future__ import annotations

import subprocess
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlspec.compiler.digests import Side
    from rlspec.compiler.experiment import Experiment
    from rlspec.dsl.diagnostics import Source, SpecError


def side(word: str) -> Side:
    """The experiment that a word of the command line names: `x.rlspec`, `x.rlspec#variant`, `HEAD~3:specs/x.rlspec`,
    `plan.json`, `runs/x`.

    Raises:
        SpecError: RLC0701 there is no such file, revision or run; or what is wrong with the spec or plan.
    """
    from rlspec.compiler.digests import Side, side_of
    from rlspec.compiler.stored import read_plan
    from rlspec.dsl.parser import read

    path = Path(word)
    if path.is_dir():
        return Side(word, read_plan(path / "plan.json"), experiment=_resolved(path / "resolved.rlspec"))
    if path.suffix == ".json":
        return Side(word, read_plan(path))
    if path.exists():
        return side_of(read(path), word)
    place, _, variant = word.partition("#")
    source = read(place) if Path(place).exists() or ":" not in place else _revision(place)
    return side_of(source, word, variant or None)


def _resolved(path: Path) -> Experiment | None:
    """A run's experiment, for provenance; None when the run was started from a plan and has none."""
    from rlspec.compiler.check import check
    from rlspec.dsl.parser import read

    return check(read(path)).experiment if path.exists() and path.stat().st_size else None


def _revision(word: str) -> Source:
    """The text of `revision:path`, as `git show` gives it."""
    from rlspec.dsl.diagnostics import Source

    revision, _, name = word.partition(":")
    if not revision or revision.startswith("-"):
        raise _missing(word, "a revision is written `HEAD~3:specs/x.rlspec`")
    try:
        done = subprocess.run(["git", "show", f"{revision}:{name}"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(word, f"git cannot be asked: {error}") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise _missing(word, reason[0] if reason else "git does not know it")
    try:
        text = done.stdout.decode("utf-8-sig")
        # what it extends and uses is that of the same revision
        return Source(word, text, lambda near: _revision(f"{revision}:{normpath(join(dirname(name), near))}"))
    except UnicodeDecodeError as error:
        raise _missing(word, "it is not UTF-8 text") from error


def _missing(word: str, note: str) -> SpecError:
    from rlspec.dsl.diagnostics import Diagnostic, SpecError

    return SpecError([Diagnostic("RLC0701", f"cannot read {word}", notes=(note,))])
