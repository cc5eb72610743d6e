"""Going to places: definitions (also of the standard library), references, the outline of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlspec import specs
from rlspec.compiler.experiment import FORMULAS
from rlspec.dsl import tree
from rlspec.dsl.printer import text_of
from rlspec.dsl.tree import Span
from rlspec.editor.document import Document


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file; `path` is None for the document itself."""

    path: Path | None
    span: Span


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of an outline: `sort` is experiment, component, formula, field, function, block."""

    name: str
    detail: str
    sort: str
    span: Span
    selection: Span
    inside: tuple[Entry, ...]


@cache
def library_places() -> dict[str, tuple[Path, Span, str]]:
    """Where each definition of the standard library stands: file, span of its name, text of that file."""
    found = {}
    for path in sorted((Path(specs.__path__[0]) / "std").glob("*.rlspec")):
        document = Document(path.read_text(encoding="utf-8"), str(path))
        for declaration in document.symbols.declarations:
            if declaration.kind == "def":
                found[f"std.{declaration.name}"] = (path, declaration.span, document.text)
    return found


def definition(document: Document, offset: int) -> list[Place]:
    """Where what stands at an offset is declared."""
    for span, name in document.symbols.library:
        if span.start <= offset <= span.stop and name in library_places():
            path, where, _ = library_places()[name]
            return [Place(path, where)]
    for text in _texts(document.file.items):
        near = Path(document.path).parent / text.value
        if text.span.start <= offset <= text.span.stop and near.suffix == ".rlspec" and near.is_file():
            return [Place(near, Span(0, 0))]
    if (place := _used(document, offset)) is not None:
        return [place]
    found = document.symbols.at(offset)
    return [Place(None, d.span) for d in found[1]] if found else []


def _used(document: Document, offset: int) -> Place | None:
    """Where a definition of another file stands, `shapes.slope` with `use shapes = "shapes.rlspec"`."""
    files = {
        item.head.labels[0].value: item.value.value
        for item in document.file.items
        if item.head.path[0].value == "use" and item.head.labels and isinstance(item.value, tree.Text)
    }
    for _, expression in document.expressions() if files else ():
        for node in _members(expression):
            inside = node.span.start <= offset <= node.span.stop
            if inside and isinstance(node.target, tree.Name) and node.target.value in files:
                near = Path(document.path).parent / files[node.target.value]
                if not near.is_file():
                    return None
                there = Document(near.read_text(encoding="utf-8", errors="replace"), str(near))
                named = (d for d in there.symbols.declarations if d.kind == "def" and d.name == node.name.value)
                return next((Place(near, d.span) for d in named), Place(near, Span(0, 0)))
    return None


def _members(node: object) -> Iterator[tree.Member]:
    if isinstance(node, tree.Member):
        yield node
    if isinstance(node, tuple):
        for part in node:
            yield from _members(part)
    for name in getattr(node, "__dataclass_fields__", ()):
        yield from _members(getattr(node, name))


def references(document: Document, offset: int, declared: bool = True) -> list[Span]:
    """Every place of this file that means what stands at an offset."""
    for span, name in document.symbols.library:
        if span.start <= offset <= span.stop:
            return [s for s, other in document.symbols.library if other == name]
    found = document.symbols.at(offset)
    return document.symbols.places(found[1], declared) if found else []


def _texts(items: tuple[tree.Item, ...]) -> Iterator[tree.Text]:
    """The texts that may name a file: values and bases of heads."""
    for item in items:
        candidates = (item.value, item.head.extends, *item.head.labels)
        yield from (c for c in candidates if isinstance(c, tree.Text))
        yield from _texts(item.body or ())


def outline(document: Document) -> list[Entry]:
    """The items of a file, nested as they are written."""
    return [_entry(item) for item in document.file.items]


def _entry(item: tree.Item) -> Entry:
    head = item.head
    kind = ".".join(n.value for n in head.path)
    name = " ".join(str(label.value) for label in head.labels)
    selection = head.labels[0].span if head.labels else head.path[-1].span
    if not head.labels:
        sort = "field" if item.value is not None else "block"
    elif kind == "experiment":
        sort = "experiment"
    elif kind == "def":
        sort = "function"
    else:
        sort = "formula" if kind in FORMULAS or item.value is not None else "component"
    typed = f" : {text_of(head.type)}" if head.type is not None else ""
    detail = f"{kind}{typed}" if name else text_of(item.value) if item.value is not None else ""
    inside = tuple(_entry(inner) for inner in item.body or ())
    return Entry(name or kind, detail, sort, item.span, selection, inside)
