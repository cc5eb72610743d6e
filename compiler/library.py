"""The standard library: definitions written in the language itself, under `specs/std`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rlspec import specs
from rlspec.dsl import parser, tree
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError


@cache
def standard() -> dict[str, tree.Item]:
    """`std.name` -> definition, of every file in `specs/std`.

    Raises:
        SpecError: a file of the library does not parse (a defect of the installation).
    """
    found: dict[str, tree.Item] = {}
    for path in sorted((Path(specs.__path__[0]) / "std").glob("*.rlspec")):
        source = Source(str(path), path.read_text(encoding="utf-8"))
        file, report = parser.parse(source)
        if report:
            raise SpecError(report)
        for item in file.items:
            if item.head.path[0].value == "def":
                name = f"std.{item.head.labels[0].value}"
                if name in found:
                    raise SpecError([Diagnostic("RLC0105", f"`{name}` is defined twice", item.span, source=source)])
                found[name] = item
    return found


@cache
def remarks() -> dict[str, str]:
    """`std.name` -> the comment right above its definition, in one line; "" where there is none."""
    found: dict[str, str] = {}
    for path in sorted((Path(specs.__path__[0]) / "std").glob("*.rlspec")):
        lines = path.read_text(encoding="utf-8").split("\n")
        for item in parser.parse(Source(str(path), "\n".join(lines)))[0].items:
            if item.head.path[0].value == "def":
                at = "\n".join(lines).count("\n", 0, item.span.start)
                above: list[str] = []
                while at and lines[at - 1].startswith("#"):
                    at -= 1
                    above.insert(0, lines[at].removeprefix("#").strip())
                found[f"std.{item.head.labels[0].value}"] = " ".join(above)
    return found
