"""Plugins by static schema: what a spec needs to know of somebody else's components, without running their code.

A plugin's schema is a JSON document. An installed distribution announces it as an entry point of the group
`rlspec.plugins`, whose value `package:plugin.json` names a file of that package; or the document lies beside the spec.

    {"format": "rlspec.plugin/1", "name": "tiny_gym",
     "components": [{"kind": "env", "name": "counter", "doc": "Counts to a goal.",
                     "runtime": "tiny_gym.worlds:make_counter",
                     "measures": {"verified": "int@traj in {0, 1}"},
                     "fields": {"goal": {"type": "int in [1, 9]", "unit": "calls", "default": 3, "doc": "how far"}}}]}

Types are those of the language: `int in [1, 9]`, `real`, `bool`, `text`, `{low, high}`, `secret`; `"list": true` makes
a list, `"ref": "env"` a label of another declaration, `"fields"` a block. Components become catalog classes by the name
`plugin.component`; only `rlc run` imports what `runtime` names. Kinds may be new.
"""

from __future__ import annotations

from functools import cache

from rlspec.compiler.catalog import Components, catalog
from rlspec.compiler.catalog.base import Component, Ref, Secret, Struct, Unit
from rlspec.compiler.files import text_beside
from rlspec.compiler.records import Field, Record, ValidationError, create_model
from rlspec.compiler.types import NUMERIC, Type, read_type
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import Annotated, Any, Literal
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name
from rlspec.dsl.sha import sha256

GROUP = "rlspec.plugins"
FORMAT = "rlspec.plugin/1"
_WORD = r"^[A-Za-z_][A-Za-z0-9_]*$"
_KINDS_OF_OTHERS = ("experiment", "def", "use", "rlspec", "overlay", "variant", "sweep", "claims", "test", "param",
                    "mix", "credit", "signal", "let", "reward", "advantage", "patch", "remove", "title", "note",
                    "cites", "seed")  # fmt: skip


class _Part(Record):
    """A part of a document."""


class FieldSchema(_Part):
    """One field. `type` is a type of the language; a block has `fields` instead. A field without `default` must be
    written."""

    type: str | None = None
    fields: dict[str, FieldSchema] | None = None
    list: bool = False
    ref: str | None = None
    unit: str | None = None
    default: Any = None
    required: bool = False
    doc: str = Field(min_length=1)


class ComponentSchema(_Part):
    """One component. `runtime` is `package.module:factory`; without it the component compiles, but does not run."""

    kind: str = Field(pattern=_WORD)
    name: str = Field(pattern=_WORD)
    doc: str = Field(min_length=1)
    runtime: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    measures: dict[str, str] = Field(default_factory=dict)
    fields: dict[str, FieldSchema] = Field(default_factory=dict)


class Document(_Part):
    """The whole schema of a plugin."""

    format: Literal["rlspec.plugin/1"]
    name: str = Field(pattern=_WORD)
    version: str = ""
    components: tuple[ComponentSchema, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class PluginSchema:
    """A plugin's schema as it was read. `origin` says where: "tiny-gym 0.3" or a path."""

    name: str
    origin: str
    document: dict[str, Any]
    digest: str


def load(name: str, source: Source, span: tree.Span) -> PluginSchema:
    """The plugin that a spec names: a file beside it when the name ends in `.json`, else an installed distribution's.
    Its components are in the catalog afterwards.

    Raises:
        SpecError: RLC0602 there is no such plugin, RLC0603 its schema cannot be read, each at the name.
    """
    if name.endswith(".json"):
        origin, text = name, text_beside(source, name, span)
    else:
        announced = _announced()
        if name not in announced:
            near = near_name(name, announced)
            listed = f"installed: {', '.join(sorted(announced))}" if announced else "no plugin is installed"
            label = f"did you mean `{near}`?" if near else listed
            raise SpecError([Diagnostic("RLC0602", f"there is no plugin `{name}`", span, label=label, source=source)])
        try:
            origin, text = _text_of(announced[name])
        except (OSError, UnicodeDecodeError) as error:
            message = f"the schema of plugin `{name}` cannot be read: {error}"
            raise SpecError([Diagnostic("RLC0603", message, span, source=source)]) from error
    try:
        return _registered(text, origin)
    except _Unreadable as error:
        message = f"the schema of plugin `{name}` is wrong: {error}"
        raise SpecError([Diagnostic("RLC0603", message, span, notes=(origin,), source=source)]) from error


def digest_of(document: dict[str, Any]) -> str:
    """`s1:` and SHA-256 of what a schema means: without its texts for readers and the version."""
    import json

    return "s1:" + sha256(json.dumps(_bare(document), sort_keys=True).encode()).hexdigest()


def revive(document: dict[str, Any], origin: str) -> PluginSchema:
    """A schema out of a plan, its components in the catalog again.

    Raises:
        ValueError: it is no schema.
    """
    import json

    return _registered(json.dumps(document), origin)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items() if k not in ("doc", "version")}
    return [_bare(v) for v in value] if isinstance(value, list) else value


# ------------------------------------------------------------------------------------------------------ installed


@cache
def _announced() -> dict[str, Any]:
    """Entry points by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _text_of(entry: Any) -> tuple[str, str]:
    """Where an entry point's schema comes from and its text, without importing the package."""
    from importlib.util import find_spec
    from pathlib import Path

    package, _, file = str(entry.value).partition(":")
    inside = "/".join([*package.split("."), file])
    path = Path(str(entry.dist.locate_file(inside)))
    if not path.is_file():  # an editable installation: only the package's finder knows; of a top-level one, no import
        top, *rest = package.split(".")
        found = find_spec(top)
        for folder in found.submodule_search_locations or () if found is not None else ():
            candidate = Path(folder, *rest, file)
            path = candidate if candidate.is_file() else path
    return f"{entry.dist.name} {entry.dist.version}", path.read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------------- the catalog


class _Unreadable(ValueError):
    """What is wrong with a schema, with the path in it."""


@cache
def _read(text: str) -> tuple[Document, dict[str, Any], str, tuple[type[Component], ...]]:
    import json

    try:
        body = json.loads(text)
    except ValueError as error:
        raise _Unreadable(f"no JSON: {error}") from error
    try:
        document = Document.model_validate(body)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise _Unreadable("; ".join(found[:3])) from error
    kept = document.model_dump(mode="json", exclude_defaults=True)
    for component in document.components:
        if component.kind in _KINDS_OF_OTHERS:
            raise _Unreadable(f"{component.name}: `{component.kind}` is a word of the language, not a kind")
    made = tuple(_component(document, c) for c in document.components)
    keys = [(m.KIND, m.NAME) for m in made]
    if len(set(keys)) < len(keys):
        raise _Unreadable("a component is listed twice")
    return document, kept, digest_of(kept), made


def _registered(text: str, origin: str) -> PluginSchema:
    document, body, digest, made = _read(text)
    known = catalog()  # of this process: the schema that was read last counts
    for names in known.values():
        for stale in [n for n in names if n.startswith(f"{document.name}.")]:
            del names[stale]
    for component in made:
        known.setdefault(component.KIND, Components())[component.NAME] = component
    return PluginSchema(document.name, origin, body, digest)


def _component(document: Document, schema: ComponentSchema) -> type[Component]:
    where = f"{schema.kind}.{schema.name}"
    for measure, written in schema.measures.items():
        _type(written, f"{where}.measures.{measure}")
    made: type[Component] = create_model(
        "".join(w.capitalize() for w in schema.name.split("_")),
        __base__=Component,
        __doc__=schema.doc,
        **_definitions(schema.fields, where),
    )
    made.KIND, made.NAME = schema.kind, f"{document.name}.{schema.name}"
    made.MEASURES, made.RUNS = dict(schema.measures), schema.runtime is not None
    made.FACTORY = schema.runtime
    return made


def _definitions(fields: dict[str, FieldSchema], where: str) -> dict[str, Any]:
    return {name: _field(name, field, f"{where}.{name}") for name, field in fields.items()}


def _field(name: str, schema: FieldSchema, where: str) -> tuple[Any, Any]:
    if not name.isidentifier():
        raise _Unreadable(f"{where}: a field's name is a word")
    given = "default" in schema.model_fields_set
    if schema.fields is not None:
        inner = create_model(name.capitalize(), __base__=Struct, __doc__=schema.doc,
                             **_definitions(schema.fields, where))  # fmt: skip
        return Annotated[inner, Field(description=schema.doc)], Field(default_factory=inner)
    if schema.type is None:
        raise _Unreadable(f"{where}: a field has a `type`, or `fields`")
    annotation, bounds = _annotation(schema, where)
    metadata: list[Any] = [Unit(schema.unit)] if schema.unit else []
    if schema.list:
        one: Any = Annotated[(annotation, Field(**bounds))] if bounds else annotation
        annotation = tuple[one, ...]
        bounds = {}
    metadata.append(Field(description=schema.doc, **bounds))
    default: Any = tuple(schema.default) if schema.list and isinstance(schema.default, list) else schema.default
    if given and not schema.required:
        try:
            create_model("Probe", value=(Annotated[(annotation, *metadata)], ...)).model_validate({"value": default})
        except ValidationError as error:
            raise _Unreadable(f"{where}: its default: {error.errors()[0]['msg']}") from error
        return Annotated[(annotation, *metadata)], default
    return Annotated[(annotation, *metadata)], ...


def _annotation(schema: FieldSchema, where: str) -> tuple[Any, dict[str, Any]]:
    """The Python type of a field and its bounds."""
    assert schema.type is not None
    if schema.type == "secret":
        return Secret, {}
    if schema.ref is not None:
        if schema.type != "text":
            raise _Unreadable(f"{where}: a `ref` is of type text")
        return Annotated[str, Ref(schema.ref)], {}
    found = _type(schema.type, where)
    if found.base == "enum":
        return Literal[found.choices], {}
    if found.base in NUMERIC and found.range.values is not None:
        values = sorted(found.range.values)
        return Literal[tuple(int(v) if found.base == "int" else v for v in values)], {}
    bounds: dict[str, Any] = {}
    if found.base in NUMERIC:
        kind = int if found.base == "int" else float
        if found.range.low > float("-inf"):
            bounds["ge"] = kind(found.range.low)
        if found.range.high < float("inf"):
            bounds["le"] = kind(found.range.high)
        return kind, bounds
    return {"bool": bool, "text": str}[found.base], bounds


def _type(written: str, where: str) -> Type:
    node, problems = parser.parse_type(Source(where, written))
    found = read_type(node, problems) if node is not None else None
    if found is None or problems:
        raise _Unreadable(f"{where}: `{written}` is no type: {problems[0].message if problems else 'it has no base'}")
    return found
