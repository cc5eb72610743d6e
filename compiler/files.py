"""Files that a spec names: bases, files of definitions, plugins' schemas. Only files, relative to the one that names
them; never the network.

A source that does not stand in a folder (a revision of git, say) brings an `opener` of its own.
"""

from __future__ import annotations

import os

from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name

if TYPE_CHECKING:
    from pathlib import Path


def beside(source: Source, name: str, span: tree.Span) -> Source:
    """The file that `source` names.

    Raises:
        SpecError: RLC0701 at the name, with a near one where there is.
    """
    if "://" in name:
        raise _at(source, span, f"`{name}` is no file: specs read nothing from the network", "name a file")
    if source.opener is not None:
        try:
            return source.opener(name)
        except SpecError as error:
            raise _at(source, span, f"cannot read `{name}`", error.diagnostics[0].message) from error
    path = _path(source, name)
    if not path.is_file():
        raise _at(source, span, f"there is no file `{name}` beside this one", _near(path, name))
    return parser.read(os.path.normpath(path))


def text_beside(source: Source, name: str, span: tree.Span) -> str:
    """The text of a file that is no spec, as `beside`."""
    if source.opener is not None:
        return beside(source, name, span).text
    path = _path(source, name)
    if not path.is_file():
        raise _at(source, span, f"there is no file `{name}` beside this one", _near(path, name))
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _at(source, span, f"cannot read `{name}`: {error}", "") from error


def _path(source: Source, name: str) -> Path:
    from pathlib import Path  # most specs name no files

    return Path(source.path).parent / name


def _at(source: Source, span: tree.Span, message: str, label: str) -> SpecError:
    return SpecError([Diagnostic("RLC0701", message, span, label=label, source=source)])


def identity(source: Source) -> str:
    """What tells two files apart, however they are named."""
    return source.path if source.opener is not None else os.path.realpath(source.path)


def placed(diagnostics: list[Diagnostic], source: Source) -> list[Diagnostic]:
    """Diagnostics without a file get this one."""
    return [d if d.source is not None else replace(d, source=source) for d in diagnostics]


def _near(path: Path, name: str) -> str:
    try:
        there = [p.name for p in path.parent.iterdir() if p.suffix == path.suffix]
    except OSError:
        return f"there is no folder `{path.parent.name}`"
    near = near_name(path.name, there)
    if near:
        return f"did you mean `{name[: len(name) - len(path.name)]}{near}`?"
    return f"there is {', '.join(sorted(there)[:5])}" if there else ""
