"""Names: where each is declared and where it is used. Pure functions over the syntax tree, sound parts only.

A file has three scopes: its own (`def`s, the experiment), the experiment's (components, formulas, parameters: order
means nothing), and a `def`'s parameters. A name that a component's field takes for a choice (`split = test`) is no
reference, even where something else is called so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Struct
from rlspec.compiler.elaborate import dotted
from rlspec.compiler.experiment import FORMULAS, WIRING
from rlspec.dsl import tree
from rlspec.dsl.tree import Span
from rlspec.editor.schema import FieldFacts, facts_of

DECLARING = (*FORMULAS, "param", "variant", "overlay", "sweep")


@dataclass(frozen=True, slots=True)
class Declaration:
    """`kind` is the word that declares it (`parameter` for a `def`'s); `scope` the span in which it can be seen."""

    name: str
    kind: str
    span: Span
    item: tree.Item
    scope: Span
    parameter: tree.Parameter | None = None


@dataclass(slots=True)
class Symbols:
    """All declarations, and of each use the declarations that it may mean (several for a reward per environment).
    `library` are uses of the standard library: span and dotted name."""

    declarations: list[Declaration] = field(default_factory=list)
    uses: list[tuple[Span, tuple[Declaration, ...]]] = field(default_factory=list)
    library: list[tuple[Span, str]] = field(default_factory=list)

    def visible(self, offset: int) -> list[Declaration]:
        """What can be seen at a place."""
        return [d for d in self.declarations if d.scope.start <= offset <= d.scope.stop]

    def at(self, offset: int) -> tuple[Span, tuple[Declaration, ...]] | None:
        """The name at a place (also right behind it), and what it means."""
        for declaration in self.declarations:
            if declaration.span.start <= offset <= declaration.span.stop:
                return declaration.span, self.namesakes(declaration)
        return next((u for u in self.uses if u[0].start <= offset <= u[0].stop), None)

    def namesakes(self, declaration: Declaration) -> tuple[Declaration, ...]:
        """The declaration and the others of its name and scope: one name, declared per environment."""
        same = (d for d in self.declarations if d.name == declaration.name and d.scope == declaration.scope)
        return tuple(same)

    def places(self, declarations: tuple[Declaration, ...], declared: bool = True) -> list[Span]:
        """Every place at which these stand, in the order of the text."""
        found = [span for span, meant in self.uses if any(d in declarations for d in meant)]
        return sorted([*found, *(d.span for d in declarations if declared)], key=lambda s: s.start)


def symbols_of(file: tree.File, length: int) -> Symbols:
    """The names of a file; `length` is that of its text."""
    return _Collector(file, Span(0, length)).symbols


class _Collector:
    def __init__(self, file: tree.File, whole: Span) -> None:
        self.symbols = Symbols()
        for number, item in enumerate(file.items):
            kind = item.head.path[0].value
            if kind == "experiment" and item.body is not None:
                # A block that is still being typed has no end: it goes on to the next item.
                after = file.items[number + 1].span.start if number + 1 < len(file.items) else whole.stop
                self._declare(item, kind, whole)
                for inner in item.body:
                    self._declare_inner(inner, Span(item.span.start, after), whole)
            elif kind == "def":
                self._declare(item, kind, whole)
        for item in file.items:
            self._use(item)

    # ------------------------------------------------------------------------------------------------ declarations

    def _declare(self, item: tree.Item, kind: str, scope: Span) -> None:
        for label in item.head.labels[:1]:
            if isinstance(label, tree.Name):
                self.symbols.declarations.append(Declaration(label.value, kind, label.span, item, scope))
        for parameter in item.head.parameters or ():
            name = parameter.name
            self.symbols.declarations.append(
                Declaration(name.value, "parameter", name.span, item, item.span, parameter)
            )

    def _declare_inner(self, item: tree.Item, scope: Span, whole: Span) -> None:
        kind = item.head.path[0].value
        if len(item.head.path) == 1 and (kind in catalog() or kind in DECLARING or kind == "def"):
            self._declare(item, kind, whole if kind == "def" else scope)
        if kind in ("variant", "overlay"):  # what a patch adds, or declares anew
            for inner in item.body or ():
                self._declare_inner(inner, scope, whole)

    # ---------------------------------------------------------------------------------------------------------- uses

    def _meant(self, name: str, at: Span, kind: str = "") -> tuple[Declaration, ...]:
        found = [
            d for d in self.symbols.declarations
            if d.name == name and d.scope.start <= at.start < max(d.scope.stop, d.scope.start + 1)
            and (not kind or d.kind == kind)
        ]  # fmt: skip
        inner = max((d.scope.start for d in found), default=0)
        return tuple(d for d in found if d.scope.start == inner)

    def _refer(self, name: tree.Name, kind: str = "") -> bool:
        meant = self._meant(name.value, name.span, kind)
        if meant:
            self.symbols.uses.append((name.span, meant))
        return bool(meant)

    def _use(self, item: tree.Item) -> None:
        head, kind = item.head, item.head.path[0].value
        for parameter in head.parameters or ():
            if parameter.default is not None:
                self._expression(parameter.default)
        if head.on is not None:
            self._refer(head.on, "env") or self._refer(head.on, "stage")
        if isinstance(head.extends, tree.Name):
            self._refer(head.extends)
        elif (
            kind == "patch" and [n.value for n in head.labels[:-1]] == ["on"] and isinstance(head.labels[-1], tree.Name)
        ):
            self._refer(head.labels[-1], "env")
        if kind == "remove" and isinstance(item.value, tree.ListOf):
            for path in item.value.items:
                self._path(path)
            return
        if kind == "mix":
            for entry in item.body or ():
                self._refer(entry.head.path[0], "env")
        if kind in ("patch", "given") and len(head.path) > 1:
            for step in head.path[1:]:
                if self._refer(step):
                    break
        if kind in catalog() and item.body is not None and head.type is not None:
            known = catalog()[kind].get(dotted(head.type.base) or "")
            for inner in item.body:
                self._field(inner, known, kind)
            return
        if item.value is not None:
            self._expression(item.value)
        for inner in item.body or ():
            self._use(inner)

    def _path(self, node: tree.Expression) -> str:
        """A path as `remove` has it: `judge.turns`, `reward.R.math`. Gives the kind that it begins with."""
        if isinstance(node, tree.Name):
            return node.value
        if not isinstance(node, tree.Member):
            return ""
        kind = self._path(node.target)
        self._refer(node.name, kind if isinstance(node.target, tree.Name) else "env")
        return kind

    def _field(self, item: tree.Item, schema: type[Struct] | None, kind: str) -> None:
        """A field of a component: whether a bare name is a reference depends on what the field takes."""
        facts: FieldFacts | None = None
        for name in item.head.path:
            info = schema.model_fields.get(name.value) if schema is not None else None
            facts = facts_of(name.value, info) if info is not None else None
            schema = facts.struct if facts is not None else None
        for inner in item.body or ():
            self._field(inner, schema, kind)
        if item.value is not None:
            target = WIRING.get(kind, {}).get(item.head.path[0].value)
            kinds = (target,) if target else facts.refers if facts is not None else ()
            self._static(item.value, kinds)

    def _static(self, node: tree.Expression, kinds: tuple[str, ...]) -> None:
        if isinstance(node, tree.Name):
            if not any(self._refer(node, kind) for kind in kinds):
                self._refer(node, "param")
            return
        for inner in children(node):
            self._static(inner, kinds)

    def _expression(self, node: tree.Expression) -> None:
        match node:
            case tree.Name():
                self._refer(node)
            case tree.Member(target=tree.Name(value="std"), name=name):
                self.symbols.library.append((node.span, f"std.{name.value}"))
            case tree.Member(target=tree.Name() as target, name=name):
                if not self._refer(target) and target.value not in ("env", "user"):
                    self._refer(name, target.value)
            case tree.Call():
                self._call(node)
            case _:
                for inner in children(node):
                    self._expression(inner)

    def _call(self, node: tree.Call) -> None:
        self._expression(node.function)
        function = self._meant(node.function.value, node.span) if isinstance(node.function, tree.Name) else ()
        owners = [d.item for d in function if d.kind == "def"]
        for argument in node.arguments:
            self._expression(argument.value)
            if argument.where is not None:
                self._expression(argument.where)
            if argument.name is not None and owners:
                meant = tuple(
                    d for d in self.symbols.declarations
                    if d.kind == "parameter" and d.item in owners and d.name == argument.name.value
                )  # fmt: skip
                if meant:
                    self.symbols.uses.append((argument.name.span, meant))


def children(node: tree.Expression) -> Iterator[tree.Expression]:
    """The expressions right inside of one."""
    match node:
        case tree.Member():
            yield node.target
        case tree.Index():
            yield from (node.target, node.key)
        case tree.Unary():
            yield node.operand
        case tree.Binary():
            yield from (node.left, node.right)
        case tree.Conditional():
            yield from (node.condition, node.yes, node.no)
        case tree.Call():
            yield node.function
            for argument in node.arguments:
                yield argument.value
                if argument.where is not None:
                    yield argument.where
        case tree.ListOf() | tree.SetOf():
            yield from node.items


def smallest(node: tree.Expression, offset: int) -> tree.Expression | None:
    """The smallest expression at a place."""
    if not node.span.start <= offset <= node.span.stop:
        return None
    for inner in children(node):
        found = smallest(inner, offset)
        if found is not None:
            return found
    return node
