"""`use`: definitions of other files, and plugins.

    use shapes = "shapes.rlspec"              # its `def`s are called as shapes.f(...)
    use gym    = plugin("rlspec-tiny-gym")    # its components are gym.counter; an installed distribution's
    use gym    = plugin("gym.json")           # ... or a schema beside the spec

Scope is lexical: what a file uses is known in that file only, and a definition sees those of its own file, never its
caller's. A file of definitions holds `def`s and `use`s; files that use each other in a circle are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rlspec.compiler.files import beside, identity
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import TYPE_CHECKING, Any
from rlspec.dsl.dataclass import dataclass, field, names_of, replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError

if TYPE_CHECKING:
    from rlspec.compiler.plugins import PluginSchema

RESERVED = ("std", "env", "user", "policy")
Take = Callable[[Source], int]
"""Gives a file a stretch of numbers for its spans: where it begins."""


@dataclass(slots=True)
class Uses:
    """What the `use`s of one file bring: definitions by dotted name, plugins by alias."""

    definitions: dict[str, tree.Item] = field(default_factory=dict)
    plugins: dict[str, PluginSchema] = field(default_factory=dict)

    @property
    def aliases(self) -> set[str]:
        return {name.partition(".")[0] for name in self.definitions} | self.plugins.keys()


def uses_of(items: Iterable[tree.Item], source: Source, take: Take, report: list[Diagnostic]) -> Uses:
    """Read what a file uses; `items` are its own, `source` is the file. Everything that is wrong is reported with its
    file."""
    return _Reader(take, report).read(items, source, [])


class _Reader:
    def __init__(self, take: Take, report: list[Diagnostic]) -> None:
        self.take, self.report = take, report

    def read(self, items: Iterable[tree.Item], source: Source, trail: list[Source]) -> Uses:
        out = Uses()
        trail = [*trail, source]
        for item in items:
            if item.head.path[0].value != "use":
                continue
            alias = self._alias(item, source, out)
            if alias is None:
                continue
            try:
                if isinstance(item.value, tree.Text):
                    self._file(alias, item.value, source, trail, out)
                elif (name := plugin_name(item.value)) is not None:
                    from rlspec.compiler.plugins import load

                    out.plugins[alias] = load(name.value, source, name.span)
                else:
                    words = 'write `use shapes = "shapes.rlspec"` or `use gym = plugin("name")`'
                    self._say("RLC0207", "a use names a file or a plugin", item, source, words)
            except SpecError as error:
                self.report += error.diagnostics
        return out

    def _say(self, code: str, message: str, item: tree.Item, source: Source, label: str = "", *notes: str) -> None:
        self.report.append(Diagnostic(code, message, item.head.span, label=label, notes=notes, source=source))

    def _alias(self, item: tree.Item, source: Source, out: Uses) -> str | None:
        head = item.head
        if len(head.labels) != 1 or not isinstance(head.labels[0], tree.Name) or len(head.path) > 1:
            self._say("RLC0108", "a use needs one name", item, source, 'write `use shapes = "shapes.rlspec"`')
            return None
        alias = head.labels[0].value
        if alias in RESERVED:
            self._say("RLC0105", f"`{alias}` has a meaning already", item, source, "choose another name")
            return None
        if alias in out.aliases:
            self._say("RLC0105", f"`{alias}` is used twice", item, source)
            return None
        return alias

    def _file(self, alias: str, name: tree.Text, source: Source, trail: list[Source], out: Uses) -> None:
        found = beside(source, name.value, name.span)
        if any(identity(found) == identity(other) for other in trail):
            circle = " -> ".join(s.path for s in (*trail, found))
            raise SpecError(
                [Diagnostic("RLC0106", "files use each other in a circle", name.span, notes=(circle,), source=source)]
            )
        file, problems = parser.parse(found)
        self.report += problems
        for item in file.items:
            kind = item.head.path[0].value
            if kind not in ("def", "use", "rlspec"):
                words = f"`{kind}` in a file of definitions"
                self._say("RLC0102", words, item, found, "such a file holds `rlspec = 1`, `def`s and `use`s")
        inner = self.read(file.items, found, trail)
        base = self.take(found)
        own: dict[str, tree.Item] = {}
        for item in file.items:
            if item.head.path[0].value == "def":
                define(item, own, self.report, found)
        out.definitions |= {f"{alias}.{n}": i for n, i in inner.definitions.items()}
        out.definitions |= {f"{alias}.{n}": shifted(i, base) for n, i in own.items()}


def define(
    item: tree.Item, definitions: dict[str, tree.Item], report: list[Diagnostic], source: Source | None = None
) -> None:
    """Add a `def`, or report what is wrong with it."""
    head = item.head
    if len(head.labels) != 1 or head.parameters is None or item.value is None:
        words = "a definition is `def name(x : type) : type = expression`"
        report.append(Diagnostic("RLC0207", words, head.span, source=source))
    elif (name := head.labels[0].value) in definitions:
        report.append(Diagnostic("RLC0105", f"`{name}` is defined twice", head.span, source=source))
    else:
        definitions[name] = item


def plugin_name(node: tree.Expression | None) -> tree.Text | None:
    """The text of `plugin("name")`."""
    if isinstance(node, tree.Call) and isinstance(node.function, tree.Name) and node.function.value == "plugin":
        values = [a.value for a in node.arguments]
        if len(values) == 1 and isinstance(values[0], tree.Text):
            return values[0]
    return None


def named(items: tuple[tree.Item, ...], plugins: dict[str, PluginSchema]) -> tuple[tree.Item, ...]:
    """Items whose components of plugins (`gym.counter`) carry the name that the catalog has for them."""
    if not plugins:
        return items
    out = []
    for item in items:
        kind = item.head.type
        if kind is not None and isinstance(kind.base, tree.Member) and isinstance(kind.base.target, tree.Name):
            plugin = plugins.get(kind.base.target.value)
            if plugin is not None:
                name = tree.Name(f"{plugin.name}.{kind.base.name.value}", kind.base.span)
                head = replace(item.head, type=replace(kind, base=name))
                item = replace(item, head=head)
        if item.body is not None:
            item = replace(item, body=named(item.body, plugins))
        out.append(item)
    return tuple(out)


def shifted(node: Any, by: int) -> Any:
    """A tree with all its spans moved by so many characters."""
    if isinstance(node, tree.Span):
        return tree.Span(node.start + by, node.stop + by)
    if isinstance(node, tuple):
        return tuple(shifted(part, by) for part in node)
    if changes := {name: shifted(getattr(node, name), by) for name in names_of(node)}:
        return replace(node, **changes)
    return node
