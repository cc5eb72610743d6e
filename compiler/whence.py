"""Where a value comes from: the layers that wrote it, from the schema's default to the command line.

stage.train.lr = 1e-05
  schema default  0.0003
  spec            assumed(1e-6, "not published")   tarl.rlspec:58
  variant fast    chosen(1e-5, "half the steps")   tarl.rlspec:71
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Struct, Unit
from rlspec.compiler.components import struct_of
from rlspec.compiler.compose import PATCH, Composition
from rlspec.compiler.experiment import FORMULAS, WIRING
from rlspec.compiler.patches import Body, leaf_item
from rlspec.compiler.records import Undefined
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic, SpecError, near_name
from rlspec.dsl.printer import text_of

PLAIN = ("title", "cites", "seed", "note", "credit")
DEFAULTS = {"seed": "0"}
UNWIRED = {"serves": "every env", "on": "every env", "on_failure": "drop"}


@dataclass(frozen=True, slots=True)
class Link:
    """One layer that wrote the value: its text with provenance, and `file:line` ("" for defaults and options)."""

    layer: str
    text: str
    place: str
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Chain:
    """All links of a path, the one that counts last; `params` are the chains of the params that it reads."""

    path: str
    links: list[Link]
    params: list[Chain]

    @property
    def last(self) -> Link:
        return self.links[-1]


def chain(composition: Composition, path: str, settings: Mapping[str, str] | None = None) -> Chain:
    """The origins of `stage.train.lr`, `policy.agent.width`, `reward.R` (`reward.R.retail` where there are several),
    `param.k`, `mix.math`, `credit`, `seed`. A label may be left out when there is one declaration of the kind.

    Raises:
        SpecError: RLC0111, there is no such path.
    """
    settings = settings or {}
    words = path.split(".")
    links: list[Link] = []
    if (default := _default(composition.layers[-1].body, words)) is not None:
        links.append(Link("schema default", default, ""))
    before: tree.Item | None = None
    for number, layer in enumerate(composition.layers):
        item = _find(layer.body, words)
        if item is not None and item is not before:
            source, span = composition.place(item.span)
            said = source.path.startswith(PATCH)
            place = source.path if said else f"{source.path}:{source.position(span.start)[0]}"
            value = item.value
            text = text_of(value) if value is not None else _block(item)
            names = tuple(_names(value)) if value is not None else ()
            links.append(Link(layer.name, text, place, names))
        elif item is None and before is not None:
            links.append(Link(layer.name, links[0].text if default is not None else "removed", "by its `remove`"))
        elif number == 0 and item is None and not links and not _written_later(composition, words):
            raise _unknown(composition, words)
        before = item
    params = _params(composition.layers[-1].body)
    if words[0] == "param" and len(words) == 2 and words[1] in settings:
        links.append(Link("command line", settings[words[1]], f"--set {words[1]}"))
    read = [n for n in dict.fromkeys(links[-1].names) if n in params and not (words[0] == "param" and n == words[-1])]
    return Chain(path, links, [chain(composition, f"param.{n}", settings) for n in read])


def rendered(found: Chain, indent: str = "") -> str:
    """The chain as text, columns aligned."""
    layers = max(len(link.layer) for link in found.links)
    texts = min(60, max(len(link.text) for link in found.links))
    lines = [f"{indent}{found.path} = {found.last.text}"]
    for link in found.links:
        lines.append(f"{indent}  {link.layer:<{layers}}  {link.text:<{texts}}  {link.place}".rstrip())
    for inner in found.params:
        lines += [rendered(inner, indent + "    ")]
    return "\n".join(lines)


def _written_later(composition: Composition, words: list[str]) -> bool:
    return any(_find(layer.body, words) is not None for layer in composition.layers[1:])


def _labelled(body: Body, kind: str) -> list[tree.Item]:
    return [i for i in body if i.head.path[0].value == kind and i.head.labels]


def _declaration(body: Body, words: Sequence[str]) -> tuple[tree.Item, list[str]] | None:
    """The declaration that a path names, and the rest of the path."""
    declared = _labelled(body, words[0])
    for item in declared:
        if len(words) > 1 and item.head.labels[0].value == words[1]:
            on = item.head.on
            if words[0] in FORMULAS and len(words) == 3:
                if on is None or on.value != words[2]:
                    continue
                return item, []
            return item, list(words[2:])
    if len(declared) == 1 and words[0] not in FORMULAS and words[0] != "param":
        return declared[0], list(words[1:])
    return None


def _find(body: Body, words: Sequence[str]) -> tree.Item | None:
    """The item that writes the value of a path."""
    if words[0] in PLAIN and len(words) == 1:
        return next((i for i in body if i.head.path[0].value == words[0]), None)
    found = _declaration(body, words)
    if found is None:
        return None
    item, rest = found
    return leaf_item(item.body or (), rest) if rest else item


def _default(body: Body, words: Sequence[str]) -> str | None:
    """The schema's default of a field, as a spec writes it."""
    if words[0] in DEFAULTS and len(words) == 1:
        return DEFAULTS[words[0]]
    found = _declaration(body, words)
    if found is None or not found[1] or words[0] not in catalog():
        return None
    item, rest = found
    if len(rest) == 1 and rest[0] in WIRING.get(words[0], {}):
        return UNWIRED[rest[0]]
    if item.head.type is None or not isinstance(item.head.type.base, tree.Name):
        return None
    owner: type[Struct] | None = catalog()[words[0]].get(item.head.type.base.value)
    default: Any = Undefined
    unit = ""
    for word in rest:
        info = owner.model_fields.get(word) if owner is not None else None
        if info is None:
            return None
        nested = default.__dict__.get(word, info.default) if isinstance(default, Struct) else info.default
        default, owner = nested, struct_of(info.annotation)
        unit = next((m.name for m in info.metadata if isinstance(m, Unit)), "")
    if default is Undefined or isinstance(default, Struct):
        return None
    return _written(default, unit)


def _written(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_written(v, unit) for v in value) + "]"
    return f"{value}{unit}" if isinstance(value, int | float) else str(value)


def _block(item: tree.Item) -> str:
    """A declaration without its fields."""
    return text_of(item.head) + " { ... }"


def _params(body: Body) -> set[str]:
    return {i.head.labels[0].value for i in _labelled(body, "param")}


def _names(node: Any) -> list[str]:
    """Every bare name in an expression, in the order of the text."""
    if isinstance(node, tree.Name):
        return [node.value]
    if isinstance(node, tuple):
        return [n for part in node for n in _names(part)]
    if isinstance(node, tree.Argument):
        return _names(node.value) + _names(node.where)
    parts = ("function", "target", "operand", "condition", "yes", "no", "left", "right", "key", "arguments", "items")
    return [n for part in parts if hasattr(node, part) for n in _names(getattr(node, part))]


def _unknown(composition: Composition, words: list[str]) -> SpecError:
    """RLC0111 with the nearest path."""
    path = ".".join(words)
    known = paths(composition.layers[-1].body)
    near = near_name(path, known)
    below = [p for p in known if p.startswith(f"{path}.")]
    cure = f"did you mean `{near}`?" if near else f"e.g. {', '.join(below[:5] or known[:5])}"
    return SpecError([Diagnostic("RLC0111", f"there is no path `{path}` in the spec", notes=(cure,))])


def paths(body: Body) -> list[str]:
    """Every path that `chain` knows, in the order of the text; fields by their schema."""
    out: list[str] = []
    for item in body:
        kind = item.head.path[0].value
        if kind in PLAIN:
            out.append(kind)
        elif item.head.labels:
            label = f"{kind}.{item.head.labels[0].value}"
            out.append(label + (f".{item.head.on.value}" if item.head.on else ""))
            if kind == "mix":
                out += [f"{label}.{i.head.path[0].value}" for i in item.body or ()]
            elif kind in catalog() and item.head.type is not None and isinstance(item.head.type.base, tree.Name):
                owner = catalog()[kind].get(item.head.type.base.value)
                out += [f"{label}.{p}" for p in (_fields(owner) if owner else [])]
                out += [f"{label}.{name}" for name in WIRING.get(kind, {})]
    return out


def _fields(owner: type[Struct]) -> list[str]:
    out = []
    for name, info in owner.model_fields.items():
        struct = struct_of(info.annotation)
        out += [f"{name}.{inner}" for inner in _fields(struct)] if struct else [name]
    return out
