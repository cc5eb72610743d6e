"""Components from blocks: the fields that a spec writes, checked against the catalog's schema.

Every leaf remembers its origin, and everything wrong in a block is reported at once, each at its place.
"""

from __future__ import annotations

import types
from collections.abc import Mapping

from rlspec.compiler import static
from rlspec.compiler.catalog.base import Component, Ref, Secret, Struct, Unit
from rlspec.compiler.elaborate import Failed
from rlspec.compiler.records import FieldInfo, ValidationError
from rlspec.compiler.static import Construct, Leaf, Origin, Quantity, Series, Static, Symbol
from rlspec.compiler.units import scale_between
from rlspec.dsl import compiled, tree
from rlspec.dsl.annotations import Annotated, Any, Literal, get_args, get_origin
from rlspec.dsl.codes import CODES
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Diagnostic, near_name

SECRET_NAME = compiled.pattern(r"[A-Z][A-Z0-9_]*")


@dataclass(slots=True)
class Fields:
    """What a block gave: plain values by field name (nested for structs), and origins by dotted path."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    spans: dict[str, tree.Span] = field(default_factory=dict)
    sound: bool = True


@dataclass(frozen=True, slots=True)
class _Read:
    """A component that was read without a word, and all that it depends on."""

    schema: type[Component]
    item: tree.Item
    body: tuple[tree.Item, ...]
    params: Mapping[str, Leaf]
    labels: Mapping[str, set[str]]  # of the kinds that it refers to
    component: Component
    fields: Fields

    def holds(self, schema: type[Component], item: tree.Item, body: tuple[tree.Item, ...], reader: Reader) -> bool:
        """Whether it would be read again as it was."""
        same = self.item is item and self.schema is schema and self.body == body and self.params == reader.params
        return same and all(reader.labels.get(kind, set()) == known for kind, known in self.labels.items())


_READ: dict[int, _Read] = {}  # by the identity of the item, which the entry keeps alive
MOST_READ = 1024


@dataclass(slots=True)
class Reader:
    """Reads blocks. `labels` gives the declared labels of a kind, for references."""

    params: Mapping[str, Leaf]
    labels: Mapping[str, set[str]]
    report: list[Diagnostic]
    asked: set[str] = field(default_factory=set)  # kinds whose labels the component refers to that is being read

    def component(
        self, schema: type[Component], item: tree.Item, body: tuple[tree.Item, ...]
    ) -> tuple[Component | None, Fields]:
        """An instance of the schema, or None after reporting. A sound one that was read before is not read again: the
        variants of a spec have most of their declarations in common."""
        before = _READ.get(id(item))
        if before is not None and before.holds(schema, item, body, self):
            return before.component, before.fields
        self.asked, said = set(), len(self.report)
        component, fields = self._component(schema, item, body)
        if component is not None and len(self.report) == said:
            if len(_READ) >= MOST_READ:
                _READ.clear()
            labels = {kind: self.labels.get(kind, set()) for kind in self.asked}
            _READ[id(item)] = _Read(schema, item, body, self.params, labels, component, fields)
        return component, fields

    def _component(
        self, schema: type[Component], item: tree.Item, body: tuple[tree.Item, ...]
    ) -> tuple[Component | None, Fields]:
        fields = self.block(schema, body)
        before = len(self.report)
        if not fields.sound:
            # what is missing is still worth saying, what depends on a wrong value is not
            self._missing(schema, fields, item.head.span)
            return None, fields
        try:
            return schema.model_validate(fields.values), fields
        except ValidationError as error:
            for problem in error.errors():
                self._invalid(schema, problem, fields, item)
            if len(self.report) == before:
                raise
            return None, fields

    def block(self, schema: type[Struct], body: tuple[tree.Item, ...], prefix: str = "") -> Fields:
        """Read the items of a block as fields of the schema."""
        out = Fields()
        for item in body:
            try:
                self._field(schema, item, prefix, out)
            except Failed:
                out.sound = False
        return out

    def _field(self, schema: type[Struct], item: tree.Item, prefix: str, out: Fields) -> None:
        head = item.head
        name = head.path[0].value
        if head.labels or head.type or head.on or head.parameters is not None:
            raise self._fail("RLC0104", "a field is `name = value` or `name { ... }`", head.span)
        info = schema.model_fields.get(name)
        if info is None:
            near = near_name(name, schema.model_fields)
            owner = getattr(schema, "NAME", schema.__name__.lower())
            listed = ", ".join(schema.model_fields) or "none"
            raise self._fail(
                "RLC0104",
                f"`{owner}` has no field `{name}`",
                head.path[0].span,
                f"did you mean `{near}`?" if near else "",
                (f"its fields: {listed}",),
            )
        path = f"{prefix}{name}"
        struct = struct_of(info.annotation)
        if path in out.spans and not (struct and len(head.path) > 1):
            raise self._fail("RLC0105", f"`{name}` is set twice", head.path[0].span)
        out.spans.setdefault(path, item.span if item.value is None else item.value.span)
        body = item.body
        if len(head.path) > 1:  # `stop.loss = 0.06` is short for `stop { loss = 0.06 }`
            rest = replace(head, path=head.path[1:])
            body = (replace(item, head=rest),)
        if body is not None:
            if struct is None:
                raise self._fail("RLC0207", f"`{name}` takes a value: `{name} = ...`", head.span)
            inner = self.block(struct, body, f"{path}.")
            if twice := inner.values.keys() & out.values.get(name, {}).keys():
                raise self._fail("RLC0105", f"`{name}.{min(twice)}` is set twice", head.span)
            out.values[name] = {**out.values.get(name, {}), **inner.values}
            out.origins |= inner.origins
            out.spans |= inner.spans
            out.sound = out.sound and inner.sound
            return
        if struct is not None:
            raise self._fail("RLC0207", f"`{name}` takes a block: `{name} {{ ... }}`", head.span)
        assert item.value is not None
        leaf = static.leaf(item.value, self.params, self.report)
        if _holds_secret(leaf.value) and not _takes_secret(info.annotation):
            words = f"`{name}` would show the secret: only fields that are declared for one take it"
            raise self._fail("RLC0208", words, item.value.span)
        out.values[name] = self._convert(leaf.value, info.annotation, _metadata(info), item.value.span, name)
        out.origins[path] = leaf.origin

    # ------------------------------------------------------------------------------------------------ conversion

    def _convert(self, value: Static, wanted: Any, metadata: list[Any], span: tree.Span, name: str) -> Any:
        """A static value as the Python value of an annotation."""
        origin = get_origin(wanted)
        if origin is Annotated:
            inner, *more = get_args(wanted)
            return self._convert(value, inner, [*metadata, *more], span, name)
        if origin is types.UnionType:
            return self._one_of(value, [a for a in get_args(wanted) if a is not type(None)], metadata, span, name)
        if origin is Literal:
            return self._choice(value, get_args(wanted), span, name)
        if origin in (tuple, list, frozenset, set):
            inner = [a for a in get_args(wanted) if a is not Ellipsis]
            items = value.items if isinstance(value, Series) else (value,)
            fixed = origin is tuple and Ellipsis not in get_args(wanted)
            if fixed and len(items) != len(inner):
                raise self._fail("RLC0201", f"`{name}` is a list of {len(inner)} values", span)
            return [
                self._convert(v, inner[i] if fixed else inner[0], metadata, span, name) for i, v in enumerate(items)
            ]
        if wanted is bool:
            if isinstance(value, bool):
                return value
            raise self._fail("RLC0201", f"`{name}` is true or false, not {static.shown(value)}", span)
        if wanted in (int, float):
            return self._number(value, wanted, metadata, span, name)
        if wanted is Secret:
            return self._secret(value, span, name)
        if wanted is str:
            return self._text(value, metadata, span, name)
        raise self._fail("RLC0201", f"`{name}` cannot be written as {static.shown(value)}", span)

    def _one_of(self, value: Static, options: list[Any], metadata: list[Any], span: tree.Span, name: str) -> Any:
        for position, option in enumerate(options):
            before = len(self.report)
            try:
                return self._convert(value, option, metadata, span, name)
            except Failed:
                if position == len(options) - 1:
                    raise
                del self.report[before:]
        raise AssertionError("a union has members")

    def _choice(self, value: Static, choices: tuple[Any, ...], span: tree.Span, name: str) -> Any:
        given = value.name if isinstance(value, Symbol) else value.value if isinstance(value, Quantity) else value
        if given in choices and isinstance(value, (Symbol, Quantity, bool)):
            return next(c for c in choices if c == given)
        near = near_name(str(given), [str(c) for c in choices])
        hint = f"did you mean `{near}`?" if near else ""
        listed = ", ".join(str(c) for c in choices)
        raise self._fail("RLC0202", f"`{name}` is one of {listed}, not {static.shown(value)}", span, hint)

    def _number(self, value: Static, wanted: type, metadata: list[Any], span: tree.Span, name: str) -> Any:
        if not isinstance(value, Quantity):
            raise self._fail("RLC0201", f"`{name}` is a number, not {static.shown(value)}", span)
        unit = next((m.name for m in metadata if isinstance(m, Unit)), "")
        scale = scale_between(value.unit, unit) if value.unit and unit else 1.0
        if (value.unit and scale is None) or (value.unit not in ("", "%") and not unit):
            takes = f"counts {unit}" if unit else "has no unit"
            raise self._fail(
                "RLC0305",
                f"`{name}` {takes}, not {value.unit}",
                span,
                f"write `{value.value:g}{unit}`" if unit else "",
            )
        number = value.value * (scale or 1.0)
        if wanted is int:
            if number != int(number) or value.unit == "%":
                raise self._fail("RLC0201", f"`{name}` is a whole number, not {static.shown(value)}", span)
            return int(number)
        return float(number)

    def _secret(self, value: Static, span: tree.Span, name: str) -> dict[str, str]:
        """Only a name, never a value: messages do not repeat what was written."""
        match value:
            case Construct("secret", (str() as variable,)) if SECRET_NAME.fullmatch(variable):
                return {"secret": variable}
            case Construct("secret", _):
                words = "a secret is named by an environment variable, in capitals"
            case _:
                words = f"`{name}` takes a secret, and a spec holds only its name"
        raise self._fail("RLC0208", words, span, 'write `secret("NAME")`')

    def _text(self, value: Static, metadata: list[Any], span: tree.Span, name: str) -> str:
        ref = next((m for m in metadata if isinstance(m, Ref)), None)
        if ref is None:
            if isinstance(value, str):
                return value
            raise self._fail("RLC0201", f"`{name}` is a text in quotes, not {static.shown(value)}", span)
        if not isinstance(value, Symbol):
            raise self._fail("RLC0201", f"`{name}` names a declaration, not {static.shown(value)}", span)
        self.asked |= {*ref.kind.split("|")}
        known = set().union(*(self.labels.get(kind, set()) for kind in ref.kind.split("|")))
        if value.name not in known:
            near = near_name(value.name, known)
            hint = f"did you mean `{near}`?" if near else f"declared: {', '.join(sorted(known)) or 'none'}"
            raise self._fail("RLC0101", f"there is no {ref.kind} `{value.name}`", span, hint)
        return value.name

    # ------------------------------------------------------------------------------------------------- reporting

    def _fail(self, code: str, message: str, span: tree.Span, label: str = "", notes: tuple[str, ...] = ()) -> Failed:
        self.report.append(Diagnostic(code, message, span, label=label, notes=notes))
        return Failed()

    def _missing(self, schema: type[Struct], fields: Fields, span: tree.Span) -> None:
        for name, info in schema.model_fields.items():
            if info.is_required() and name not in fields.values and name not in fields.spans:
                self.report.append(Diagnostic("RLC0203", f"`{name}` has no default and is missing", span))

    def _invalid(self, schema: type[Component], problem: Any, fields: Fields, item: tree.Item) -> None:
        """One problem as a diagnostic at the field that caused it."""
        path = ".".join(str(p) for p in problem["loc"] if isinstance(p, str))
        span = fields.spans.get(path, item.head.span)
        leaf = path.rpartition(".")[2] or item.head.path[0].value
        context = problem.get("ctx", {})
        bounds = {"greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "more than"),
                  "less_than_equal": ("le", "at most"), "less_than": ("lt", "less than")}  # fmt: skip
        if problem["type"] == "missing":
            self.report.append(Diagnostic("RLC0203", f"`{path}` has no default and is missing", span))
        elif problem["type"] in bounds:
            key, words = bounds[problem["type"]]
            if schema.KIND == "stage" and leaf == "group":
                self.report.append(
                    Diagnostic(
                        "RLC0501",
                        "a group of one trajectory has no baseline",
                        span,
                        label="use 2 or more",
                        notes=("the advantage of a trajectory is measured against the others of its group",),
                    )
                )
            else:
                self.report.append(
                    Diagnostic("RLC0401", f"`{leaf}` is {words} {context[key]:g}, not {problem['input']}", span)
                )
        else:
            reason = str(context.get("error", problem["msg"]))
            code = problem["type"] if problem["type"] in CODES else "RLC0505"  # a schema may name a code of its own
            self.report.append(Diagnostic(code, f"`{leaf}`: {reason}", span))


def struct_of(annotation: Any) -> type[Struct] | None:
    """The struct class of an annotation, if it is one (also `Struct | None`)."""
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, Struct):
            return option
    return None


def _holds_secret(value: Static) -> bool:
    match value:
        case Construct(name, arguments):
            return name == "secret" or any(_holds_secret(a) for a in arguments)
        case Series(items):
            return any(_holds_secret(i) for i in items)
        case _:
            return False


def _takes_secret(annotation: Any) -> bool:
    return annotation is Secret or any(_takes_secret(a) for a in get_args(annotation))


def _metadata(info: FieldInfo) -> list[Any]:
    return list(info.metadata)


def construct_text(value: Static) -> Any:
    """A wiring value as JSON: symbols and texts as strings, constructs as {"name": [arguments]}."""
    match value:
        case Quantity(number, _, integral):
            return int(number) if integral else number
        case Symbol(name):
            return name
        case Construct(name, arguments):
            return {name: [construct_text(a) for a in arguments]}
        case Series(items):
            return [construct_text(i) for i in items]
        case _:
            return value
