"""The standard library: definitions written in the language itself, under `specs/std`.

A definition is parsed when it is first used: most specs use one or two of them, and all together would take as long as
the spec itself. Its name is seen without that, since `def` stands at the beginning of a line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from rlspec import specs
from rlspec.dsl import compiled, parser, tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError
from rlspec.dsl.packed import packed, unpacked

_DEF = compiled.pattern(r"^def ([A-Za-z_]\w*)", compiled.MULTILINE)


class Definitions(Mapping[str, tree.Item]):
    """Definitions by dotted name; `reads` gives each when it is asked for."""

    def __init__(self, reads: Mapping[str, Callable[[], tree.Item]]) -> None:
        self._reads = reads

    def __getitem__(self, name: str) -> tree.Item:
        return self._reads[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._reads

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __len__(self) -> int:
        return len(self._reads)


def renamed(whole: Mapping[str, tree.Item], names: Mapping[str, str]) -> dict[str, Callable[[], tree.Item]]:
    """Some of `whole`, for `Definitions`: what each is called there, by what it is to be called."""
    return {new: partial(whole.__getitem__, old) for new, old in names.items()}


@cache
def standard() -> Mapping[str, tree.Item]:
    """`std.name` -> definition, of every file in `specs/std`.

    Raises:
        SpecError: a name is defined twice; or, when a definition is asked for, it does not parse. Both are defects of
            the installation.
    """
    found: dict[str, Callable[[], tree.Item]] = {}
    for path in _files():
        source = parser.read(path)
        begun = list(_DEF.finditer(source.text))
        for number, one in enumerate(begun):
            name, span = f"std.{one[1]}", tree.Span(one.start(), one.end())
            if name in found:
                raise SpecError([Diagnostic("RLC0105", f"`{name}` is defined twice", span, source=source)])
            stop = begun[number + 1].start() if number + 1 < len(begun) else len(source.text)
            found[name] = cache(partial(_parsed, source, tree.Span(one.start(), stop)))
    return Definitions(found)


def _files() -> list[str]:
    """The files of the library."""
    folder = os.path.join(specs.__path__[0], "std")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".rlspec")]


def _parsed(source: Source, span: tree.Span) -> tree.Item:
    """The definition in a part of a file, with its place in the file."""
    text = source.text[span.start : span.stop]

    def read() -> Any:
        part = Source(source.path, " " * span.start + text)
        file, report = parser.parse(part)
        if report:
            raise SpecError(report)
        (item,) = file.items
        return packed(item, span.start)

    item: tree.Item = unpacked(compiled.kept(f"definition {text}", read), span.start)
    return item


def over_standard(own: Mapping[str, tree.Item]) -> Mapping[str, tree.Item]:
    """A spec's definitions, and those of the library."""
    library = standard()
    if not own:
        return library
    return Definitions({**renamed(library, {n: n for n in library}), **renamed(own, {n: n for n in own})})


@cache
def remarks() -> dict[str, str]:
    """`std.name` -> the comment right above its definition, in one line; "" where there is none."""
    found: dict[str, str] = {}
    for path in _files():
        source = parser.read(path)
        lines = source.text.split("\n")
        for item in parser.parse(source)[0].items:
            if item.head.path[0].value == "def":
                at = "\n".join(lines).count("\n", 0, item.span.start)
                above: list[str] = []
                while at and lines[at - 1].startswith("#"):
                    at -= 1
                    above.insert(0, lines[at].removeprefix("#").strip())
                found[f"std.{item.head.labels[0].value}"] = " ".join(above)
    return found
