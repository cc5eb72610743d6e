"""One version of a text and what is known of it. Every part is computed when it is first asked for, once.

A text may be half typed: the parser gives the tree of what is sound, the checker reports the rest, and where the
checker itself breaks (a defect of ours) or takes too long, the syntax errors are still there and `trouble` says so.
"""

from __future__ import annotations

from functools import cached_property

from rlspec.compiler.check import check, check_whole
from rlspec.compiler.experiment import Experiment
from rlspec.dsl import tree
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic, Source
from rlspec.dsl.parser import parse
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import Scan, Token, scan
from rlspec.editor.deadline import TooSlow, deadline
from rlspec.editor.positions import Lines
from rlspec.editor.symbols import Symbols, symbols_of

LIMIT = 2.0  # seconds of a processor for one check


class Document:
    """A text of some version; `path` only names it in messages and resolves relative files."""

    def __init__(self, text: str, path: str = "untitled.rlspec", version: int | None = None) -> None:
        self.text, self.path, self.version = text, path, version
        self.trouble = ""

    @cached_property
    def source(self) -> Source:
        return Source(self.path, self.text)

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)

    @cached_property
    def scanned(self) -> Scan:
        return scan(self.text, load())

    @property
    def tokens(self) -> list[Token]:
        """The tokens as they stand in the text; the last is of kind `$END`."""
        return self.scanned.tokens

    @cached_property
    def parsed(self) -> tuple[tree.File, list[Diagnostic]]:
        return parse(self.source)

    @property
    def file(self) -> tree.File:
        """The tree of what is sound."""
        return self.parsed[0]

    @cached_property
    def symbols(self) -> Symbols:
        return symbols_of(self.file, len(self.text))

    @cached_property
    def _checked(self) -> tuple[list[Diagnostic], Experiment | None]:
        try:
            with deadline(LIMIT):
                found = check(self.source)
            return found.diagnostics, found.experiment
        except TooSlow as slow:
            self.trouble = f"the check was given up: {slow}"
        except Exception as error:  # a defect of the checker must not take the editor's session with it
            self.trouble = f"the check broke off: {type(error).__name__}: {error}"
        return self.parsed[1], None

    def _here(self, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
        return [d for d in diagnostics if d.source is None or d.source.path == self.path]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What is wrong with the experiment as it stands, without its variants; only what stands in this text."""
        return self._here(self._checked[0])

    @cached_property
    def whole(self) -> list[Diagnostic]:
        """Everything that `rlc check` says of this text: also what is wrong with a variant only."""
        if self.experiment is None:
            return self.diagnostics
        try:
            with deadline(LIMIT):
                return self._here(check_whole(self.source).diagnostics)
        except TooSlow as slow:
            self.trouble = f"the check of the variants was given up: {slow}"
        except Exception as error:  # a defect of the checker, as above
            self.trouble = f"the check of the variants broke off: {type(error).__name__}: {error}"
        return self.diagnostics

    @property
    def experiment(self) -> Experiment | None:
        """What the compiler made of the declarations, sound parts only."""
        return self._checked[1]

    def expressions(self) -> list[tuple[tree.Item, tree.Expression]]:
        """Every value of the file with the item that it belongs to, in the order of the text."""
        found: list[tuple[tree.Item, tree.Expression]] = []

        def walk(items: tuple[tree.Item, ...]) -> None:
            for item in items:
                if item.value is not None:
                    found.append((item, item.value))
                walk(item.body or ())

        walk(self.file.items)
        return found

    def path_to(self, offset: int) -> list[tree.Item]:
        """The items around a place, outermost first."""
        found: list[tree.Item] = []
        items: tuple[tree.Item, ...] = self.file.items
        while True:
            inner = next((i for i in items if i.span.start <= offset <= i.span.stop), None)
            if inner is None:
                return found
            found.append(inner)
            items = inner.body or ()


def placed(diagnostic: Diagnostic, length: int) -> Diagnostic:
    """A diagnostic with a span inside of the text, whatever it was made for."""
    span = diagnostic.span or tree.Span(0, 0)
    start = max(0, min(span.start, length))
    return replace(diagnostic, span=tree.Span(start, max(start, min(span.stop, length))))
