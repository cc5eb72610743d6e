"""Patches: what a variant or an overlay changes in the items of an experiment.

A path is a kind, a label (which may be left out when there is one declaration of the kind), then fields. A patch gives
a field, a formula or a setting another expression, merges a block into a declaration, or puts another component in its
place, which keeps the wiring (`serves`, `on`, `on_failure`) that it does not write itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Component, Struct
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.components import struct_of
from rlspec.compiler.elaborate import Failed
from rlspec.compiler.experiment import FORMULAS, WIRING
from rlspec.dsl import tree
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic, near_name

SETTINGS = ("title", "cites", "seed", "note", "credit")

Body = tuple[tree.Item, ...]


def names_of(node: tree.Expression) -> tuple[tree.Name, ...] | None:
    """The words of `a.b.c`, or None when it is no dotted name."""
    if isinstance(node, tree.Name):
        return (node,)
    if isinstance(node, tree.Member) and (inner := names_of(node.target)) is not None:
        return (*inner, node.name)
    return None


def labels_and_env(head: tree.Head) -> tuple[tuple[tree.Name | tree.Text, ...], tree.Name | None]:
    """The labels of a head, and the env of its `on`. Without a type before it, the grammar reads `on env` as labels."""
    labels = head.labels
    if head.on is None and len(labels) >= 2 and isinstance(labels[-2], tree.Name) and labels[-2].value == "on":
        env = labels[-1]
        if isinstance(env, tree.Name):
            return labels[:-2], env
    return labels, head.on


def leaf_item(body: Body, path: Sequence[str]) -> tree.Item | None:
    """The item that writes the field at a path, inside blocks and dotted heads alike; the last one where a block and a
    dotted head both lead there."""
    found = None
    for item in body:
        words = [n.value for n in item.head.path]
        if words == list(path):
            found = item
        elif item.body is not None and words == list(path[: len(words)]):
            found = leaf_item(item.body, path[len(words) :]) or found
    return found


def with_leaf(body: Body, path: tuple[tree.Name, ...], new: tree.Item | None) -> tuple[Body, bool]:
    """The body with the field at the path written by `new` in the old one's place (None: left out), and whether there
    was an old one."""
    wanted = [n.value for n in path]
    out: list[tree.Item] = []
    hit = False
    for item in body:
        words = [n.value for n in item.head.path]
        if words == wanted:
            if new is not None and not hit:
                out.append(_headed(new, item.head.path))
            hit = True
            continue
        if new is None and words[: len(wanted)] == wanted:  # `kl` also removes `kl.place = loss`
            hit = True
            continue
        if item.body is not None and words == wanted[: len(words)]:
            inner, inside = with_leaf(item.body, path[len(words) :], new)
            item, hit = replace(item, body=inner), hit or inside
        out.append(item)
    return tuple(out), hit


def _headed(item: tree.Item, path: tuple[tree.Name, ...]) -> tree.Item:
    return replace(item, head=replace(item.head, path=path))


def field_leaves(path: tuple[tree.Name, ...], item: tree.Item) -> Iterable[tuple[tuple[tree.Name, ...], tree.Item]]:
    """The values that a patch writes, each with its path: blocks are taken apart."""
    if item.body is None:
        yield path, item
    for inner in item.body or ():
        yield from field_leaves((*path, *inner.head.path), inner)


def _stage(item: tree.Item) -> type[Component] | None:
    """The component of a stage's declaration, None of anything else."""
    if item.head.path[0].value != "stage" or item.head.type is None or not isinstance(item.head.type.base, tree.Name):
        return None
    return catalog()["stage"].get(item.head.type.base.value)


class Patcher:
    """Applies one layer to the items of an experiment. `removed` are kinds and components of which a layer before this
    one took a declaration out, and of which this one may."""

    def __init__(
        self, name: str, body: Body, report: list[Diagnostic], removed: set[tuple[str, str]] | None = None
    ) -> None:
        self.name, self.body, self.report = name, list(body), report
        self.removed = removed if removed is not None else set()

    def fail(self, code: str, message: str, span: tree.Span, label: str = "") -> Failed:
        self.report.append(Diagnostic(code, message, span, label=label))
        return Failed()

    def unknown(self, message: str, span: tree.Span, word: str, known: Iterable[str]) -> Failed:
        """RLC0111, with what was probably meant."""
        known = sorted(set(known))
        near = near_name(word, known)
        hint = f"did you mean `{near}`?" if near else f"there is {', '.join(known)}" if known else ""
        return self.fail("RLC0111", message, span, hint)

    def applied(self, layer: tree.Item) -> Body:
        """The experiment's items after the layer."""
        for item in layer.body or ():
            try:
                self._item(item)
            except Failed:
                continue
        return tuple(self.body)

    def inherited(self, child: tree.Item) -> Body:
        """The experiment's items after those of one that extends it: patches, removals, settings of its own, and new
        declarations. What the base declares already is refused."""
        for item in child.body or ():
            kind = item.head.path[0].value
            try:
                if kind in ("patch", "remove"):
                    self._item(item)
                elif kind in SETTINGS:
                    self._replace_setting(kind, item)
                else:
                    self._new(item)
            except Failed:
                continue
        return tuple(self.body)

    def _new(self, item: tree.Item) -> None:
        kind, (labels, on) = item.head.path[0].value, labels_and_env(item.head)
        for other in self.body if labels else ():
            theirs, there = labels_and_env(other.head)
            same = other.head.path[0].value == kind and bool(theirs) and theirs[0].value == labels[0].value
            if same and (kind not in FORMULAS or on is None or there is None or on.value == there.value):
                path = f"{kind}.{labels[0].value}"
                label = f"change it by `patch.{path}`, or `remove = [{path}]` before"
                raise self.fail(
                    "RLC0105", f"the base declares {kind} `{labels[0].value}` already", item.head.span, label
                )
        self._add(item)

    def _add(self, item: tree.Item) -> None:
        """Put in a new declaration: at the end, but a cold start before all other stages, and a stage whose results
        formulas read, or that trains a diagnostician, before the first that trains. Elsewhere they make no sense."""
        added = _stage(item)
        prepares = added is not None and (bool(added.RESULTS) or added.NAME == "diagnostician")
        if added is not None and (added.NAME == "sft" or prepares):
            for place, other in enumerate(self.body):
                schema = _stage(other)
                if schema is not None and (issubclass(schema, Grpo) if prepares else schema.NAME != "sft"):
                    self.body.insert(place, item)
                    return
        self.body.append(item)

    def _add_missing(self, item: tree.Item) -> None:
        """`add.stage coldstart : sft { }`: a declaration, unless the experiment has one of that kind and component, or
        had one that was taken out: what a variant removes is not missing."""
        head, names = item.head, item.head.path[1:]
        if len(names) != 1 or names[0].value not in catalog() or head.type is None or item.body is None:
            raise self.fail("RLC0207", "write `add.stage coldstart : sft { ... }`", head.span)
        plain = replace(item, head=replace(head, path=names))
        kind, component = names[0].value, self._component_of(names[0], head.type.base)
        if not self._of(kind, component) and (kind, component) not in self.removed:
            self._add(plain)

    def _where_declared(self, item: tree.Item) -> None:
        """`given.stage.codegym { ... }`: what a layer holds, where there is a declaration of that component."""
        names = item.head.path[1:]
        if len(names) != 2 or names[0].value not in catalog() or item.head.labels or item.body is None:
            raise self.fail("RLC0207", "write `given.stage.codegym { ... }`", item.head.span)
        if self._of(names[0].value, self._component_of(*names)):
            self.applied(item)

    def _component_of(self, kind: tree.Name, node: tree.Expression) -> str:
        """The name of a component of that kind; RLC0111 where there is none."""
        name = node.value if isinstance(node, tree.Name) else ""
        known = catalog().get(kind.value, {})
        if name not in known:
            raise self.unknown(f"there is no {kind.value} component `{name}`", node.span, name, known)
        return name

    def _of(self, kind: str, name: str) -> list[int]:
        """Where the declarations of a kind and component stand."""
        places = [n for n, i in enumerate(self.body) if i.head.path[0].value == kind and i.head.labels]
        return [n for n in places if (schema := self._schema(n)) is not None and name == schema.NAME]

    def _item(self, item: tree.Item) -> None:
        kind = item.head.path[0].value
        if kind == "patch":
            self._patch(item)
        elif kind == "remove":
            self._remove(item)
        elif kind == "note":
            self._note(item)
        elif kind == "add":
            self._add_missing(item)
        elif kind == "given":
            self._where_declared(item)
        elif kind in catalog() or kind in FORMULAS or kind in ("param", "mix"):
            self._add(item)  # a label that is taken is reported when it is resolved
        else:
            known = ["patch", "add", "given", "remove", "note", "param", "mix", *catalog(), *FORMULAS]
            near = near_name(kind, known)
            hint = (
                f"did you mean `{near}`?" if near else "it holds `patch.path`, `remove = [path]`, `note`, declarations"
            )
            raise self.fail("RLC0102", f"unknown kind `{kind}` in {self.name}", item.head.path[0].span, hint)

    def _note(self, item: tree.Item) -> None:
        if not isinstance(item.value, tree.Text):
            raise self.fail("RLC0201", "`note` is a text in quotes", item.span)
        text = replace(item.value, value=f"{self.name}: {item.value.value}")
        self._replace_setting("note", replace(item, value=text))

    def _replace_setting(self, kind: str, item: tree.Item) -> None:
        places = [n for n, i in enumerate(self.body) if i.head.path[0].value == kind]
        if places:
            self.body[places[0]] = item
        else:
            self.body.append(item)

    # ---------------------------------------------------------------------------------------------------- finding

    def _kinds(self) -> set[str]:
        return {i.head.path[0].value for i in self.body} | {"seed", "title"}

    def _find(self, names: tuple[tree.Name, ...], on: tree.Name | None) -> tuple[list[int], tuple[tree.Name, ...]]:
        """Where the declarations of a path stand (several only for formulas of several environments), and what is left
        of the path. The label may be left out when there is one declaration of the kind."""
        kind = names[0].value
        places = [n for n, i in enumerate(self.body) if i.head.path[0].value == kind and i.head.labels]
        if not places:
            raise self.unknown(f"there is no {kind} to change", names[0].span, kind, self._kinds())
        labels = [self.body[n].head.labels[0].value for n in places]
        word = names[1].value if len(names) > 1 else ""
        if word in labels:
            here, rest = [n for n, label in zip(places, labels, strict=True) if label == word], names[2:]
        elif len(places) == 1 and kind not in (*FORMULAS, "param") and (not word or word in self._fields(places[0])):
            here, rest = places, names[1:]
        elif not word:
            listed = ", ".join(f"`{kind}.{label}`" for label in dict.fromkeys(labels))
            raise self.fail("RLC0111", f"which {kind}?", names[0].span, listed)
        else:
            known = [*labels, *(self._fields(places[0]) if len(places) == 1 else ())]
            raise self.unknown(f"there is no {kind} `{word}`", names[1].span, word, known)
        if on is not None:
            envs = [head_on.value for n in here if (head_on := self.body[n].head.on) is not None]
            here = [n for n in here if (head_on := self.body[n].head.on) is not None and head_on.value == on.value]
            if not here:
                raise self.unknown(f"there is no {kind} `{word}` on `{on.value}`", on.span, on.value, envs)
        return here, rest

    def _line(self, place: int) -> list[tree.Item]:
        """A declaration and what it extends, the youngest first; a circle ends it, the resolver reports that."""
        line = [self.body[place]]
        while isinstance(base := line[-1].head.extends, tree.Name):
            kind = line[-1].head.path[0].value
            found = [i for i in self.body if i.head.path[0].value == kind and i.head.labels]
            parent = next((i for i in found if i.head.labels[0].value == base.value), None)
            if parent is None or any(parent is i for i in line):
                break
            line.append(parent)
        return line

    def _schema(self, place: int) -> type[Component] | None:
        """The component of a declaration; None where its name is wrong, which the resolver reports."""
        head = next((i.head for i in self._line(place) if i.head.type is not None), self.body[place].head)
        if head.type is None or not isinstance(head.type.base, tree.Name):
            return None
        return catalog().get(head.path[0].value, {}).get(head.type.base.value)

    def _fields(self, place: int) -> list[str]:
        item = self.body[place]
        if item.head.path[0].value == "mix":
            return [i.head.path[0].value for i in item.body or ()]
        schema = self._schema(place)
        return [*schema.model_fields, *WIRING.get(item.head.path[0].value, {})] if schema else []

    def _field_exists(self, place: int, path: tuple[tree.Name, ...]) -> None:
        """Raises Failed after reporting where a path leaves the schema."""
        kind = self.body[place].head.path[0].value
        owner: type[Struct] | None = self._schema(place)
        if kind == "mix" or owner is None or path[0].value in WIRING.get(kind, {}):
            return
        for name in path:
            what = getattr(owner, "NAME", owner.__name__.lower()) if owner else ""
            if owner is None:
                raise self.fail("RLC0111", f"`{name.value}`: what stands before it has no fields", name.span)
            info = owner.model_fields.get(name.value)
            if info is None:
                fields = self._fields(place) if name is path[0] else owner.model_fields
                raise self.unknown(f"`{what}` has no field `{name.value}`", name.span, name.value, fields)
            owner = struct_of(info.annotation)

    # ---------------------------------------------------------------------------------------------------- changing

    def _patch(self, item: tree.Item) -> None:
        head, names = item.head, item.head.path[1:]
        labels, on = labels_and_env(head)
        if labels or head.parameters is not None or head.extends is not None:
            raise self.fail("RLC0111", "a patch is `patch.path` with a type, `on`, and what it is set to", head.span)
        if not names:
            raise self.fail("RLC0111", "a patch names what it changes", head.span, "write `patch.stage.train.lr = ...`")
        kind = names[0].value
        if kind == "each":
            if len(names) < 3 or names[1].value not in catalog():
                raise self.fail("RLC0111", "write `patch.each.env.tau_bench : shop { ... }`", head.span)
            for place in self._of(names[1].value, self._component_of(names[1], names[2])):
                self._declaration(item, place, names[3:])
            return
        if kind in SETTINGS:
            if len(names) > 1 or item.value is None:
                raise self.fail("RLC0207", f"`{kind}` takes a value: `patch.{kind} = ...`", head.span)
            self._replace_setting(kind, _headed(item, names))
            return
        if kind not in catalog() and kind not in (*FORMULAS, "param", "mix"):
            raise self.unknown(f"there is nothing called `{kind}`", names[0].span, kind, self._kinds())
        places, rest = self._find(names, on)
        if kind in FORMULAS or kind == "param":
            self._formula(item, places, rest)
        else:
            self._declaration(item, places[0], rest)

    def _formula(self, item: tree.Item, places: list[int], rest: tuple[tree.Name, ...]) -> None:
        if rest:
            raise self.fail("RLC0111", f"a formula has no part `{rest[0].value}`", rest[0].span)
        if len(places) > 1:
            envs = [o.value for n in places if (o := self.body[n].head.on) is not None]
            listed = " or ".join(f"`on {env}`" for env in envs)
            raise self.fail("RLC0111", "there are several formulas of that name", item.head.span, f"add {listed}")
        if item.value is None:
            raise self.fail("RLC0207", "a formula takes an expression: `patch.reward.R = ...`", item.head.span)
        old = self.body[places[0]]
        head = replace(old.head, type=item.head.type or old.head.type, span=item.head.span)
        self.body[places[0]] = replace(item, head=head)

    def _declaration(self, item: tree.Item, place: int, rest: tuple[tree.Name, ...]) -> None:
        old = self.body[place]
        if item.head.type is not None:
            if rest or item.body is None:
                raise self.fail("RLC0207", "another component takes a block: `: name { ... }`", item.head.span)
            written = {i.head.path[0].value for i in item.body}
            kind = old.head.path[0].value
            named = item.head.type.base.value if isinstance(item.head.type.base, tree.Name) else ""
            schema = catalog().get(kind, {}).get(named)
            wires = {*WIRING.get(kind, {}), *(schema.KEEPS if schema is not None else ())}
            kept: dict[str, tree.Item] = {}
            for declared in self._line(place):
                for inner in declared.body or ():
                    word = inner.head.path[0].value
                    if word in wires and word not in written:
                        kept.setdefault(word, inner)
            head = replace(old.head, type=item.head.type, extends=None, span=item.head.span)
            self.body[place] = replace(item, head=head, body=(*item.body, *kept.values()))
            return
        if not rest and item.body is None:
            raise self.fail("RLC0207", "a declaration takes a block, or name a field of it", item.head.span)
        for path, leaf in field_leaves(rest, item):
            try:
                self._field_exists(place, path)
            except Failed:
                continue
            body, hit = with_leaf(self.body[place].body or (), path, leaf)
            if not hit:
                body = (*body, _headed(leaf, path))
            self.body[place] = replace(self.body[place], body=body)

    def _remove(self, item: tree.Item) -> None:
        listed = item.value.items if isinstance(item.value, tree.ListOf) else (item.value,)
        for entry in listed:
            names = names_of(entry) if entry is not None else None
            if names is None:
                span = entry.span if entry is not None else item.head.span
                self.report.append(Diagnostic("RLC0201", "a path was expected", span, label="e.g. `stage.coldstart`"))
                continue
            try:
                self._remove_path(names)
            except Failed:
                continue

    def _remove_path(self, names: tuple[tree.Name, ...]) -> None:
        kind = names[0].value
        if len(names) == 1 and kind in ("note", "title", "cites", "seed", "mix"):
            rest: tuple[tree.Name, ...] = ()
            places = [n for n, i in enumerate(self.body) if i.head.path[0].value == kind]
            if not places:
                raise self.unknown(f"there is no `{kind}` to remove", names[0].span, kind, self._kinds())
        else:
            on = names[2] if kind in FORMULAS and len(names) == 3 else None  # `reward.R.math`: only that env's
            places, rest = self._find(names[:2] if on else names, on)
        if not rest:
            for place in reversed(places):
                schema = self._schema(place) if kind in catalog() else None
                self.removed |= {(kind, schema.NAME)} if schema is not None else set()
                del self.body[place]
            return
        self._field_exists(places[0], rest)
        body, hit = with_leaf(self.body[places[0]].body or (), rest, None)
        if not hit:
            word = ".".join(n.value for n in names)
            raise self.fail("RLC0111", f"`{word}` is not written, so there is nothing to remove", rest[0].span)
        self.body[places[0]] = replace(self.body[places[0]], body=body)
