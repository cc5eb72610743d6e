"""Completion: what can be typed at a place, out of the catalog, the library and the names of the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Component, Struct
from rlspec.compiler.elaborate import dotted
from rlspec.compiler.experiment import FAILURE_RULES, FORMULAS, OTHERS, SETTINGS, WIRING
from rlspec.compiler.functions import FUNCTIONS, PROVENANCE
from rlspec.compiler.levels import BY_LABEL
from rlspec.compiler.library import standard
from rlspec.compiler.types import BASES
from rlspec.dsl import tree
from rlspec.dsl.printer import text_of
from rlspec.editor.cursor import Cursor, HeadSoFar, cursor_at
from rlspec.editor.document import Document
from rlspec.editor.schema import field_at, fields_of, first_paragraph
from rlspec.editor.symbols import Declaration
from rlspec.editor.words import KIND_WORDS, function_text

AXES = ("group", "traj", "turn", "token")
MEASURING = ("env", "user", "judge", "policy", "stage")
OPTIONS = {
    **dict.fromkeys(("mean", "min", "max", "first", "last"), ("empty",)),
    "zscore": ("ddof", "epsilon", "singleton", "zero_variance", "missing"),
    **dict.fromkeys(("center", "rank"), ("singleton", "zero_variance", "missing")),
    **dict.fromkeys(("suffix_sum", "prefix_sum"), ("discount",)),
    "gae": ("value", "gamma", "lambda"),
    "top": ("share",),
    "anneal": ("over", "shape"),
}
PATCHING = {
    "patch": "`patch.kind.label.field = value`: another value, or another formula",
    "add": "`add.stage label : component { }`: unless there is one of that component",
    "given": "`given.stage.component { patches }`: where there is one of that component",
    "remove": "`remove = [kind.label]`: without these",
    "note": "a remark",
}
INSIDE = {
    "variant": PATCHING,
    "overlay": PATCHING,
    "test": {"given": "`given.signal = value`: a literal trajectory", "expect": "`expect name = condition`"},
    "claims": {"assert": "`assert name = condition` over published numbers"},
}
OPTION_CHOICES = {"singleton": ("zero", "raw"), "missing": ("absent", "zero"), "shape": ("linear", "cosine")}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`sort` is one of keyword, kind, component, field, choice, function, name, unit, level, measure, type."""

    label: str
    sort: str
    detail: str = ""
    doc: str = ""
    insert: str = ""
    rank: int = 5


def complete(document: Document, offset: int) -> tuple[int, list[Suggestion]]:
    """What fits at an offset, best first, and where the word begins that it replaces."""
    comments = [c.span.start for c in document.scanned.comments]
    cursor = cursor_at(document.tokens, comments, document.text, offset)
    found = {s.label: s for s in reversed(_Completer(document, cursor).suggestions())}
    kept = [s for s in found.values() if _fits(cursor.word, s.label)]
    return cursor.start, sorted(kept, key=lambda s: (s.rank, not s.label.startswith(cursor.word), s.label))


def _fits(word: str, label: str) -> bool:
    """The letters of the word, in this order."""
    rest = iter(label.lower())
    return all(c in rest for c in word.lower())


class _Completer:
    def __init__(self, document: Document, cursor: Cursor) -> None:
        self.document, self.cursor = document, cursor

    def suggestions(self) -> list[Suggestion]:
        cursor = self.cursor
        match cursor.place:
            case "item":
                return self._item()
            case "path":
                return self._path()
            case "component":
                return self._component()
            case "level":
                return [Suggestion(name, "level") for name in BY_LABEL]
            case "axis":
                return [Suggestion(name, "level") for name in AXES]
            case "on":
                return [*self._labels(("env",)), *self._resampling()]
            case "base":
                return self._labels((cursor.head.kind,))
            case "member":
                return self._member()
            case "value":
                return self._value()
            case _:
                return []

    # ------------------------------------------------------------------------------------------------------- items

    def _item(self) -> list[Suggestion]:
        cursor = self.cursor
        if not cursor.blocks:
            rank = 0 if "rlspec" not in cursor.siblings else 9
            return [
                Suggestion("rlspec", "keyword", "the edition", insert="rlspec = 1", rank=rank),
                Suggestion("experiment", "kind", KIND_WORDS["experiment"]),
                Suggestion("def", "kind", KIND_WORDS["def"]),
            ]
        schema = self._schema(cursor.blocks)
        if schema is not None:
            return self._fields(schema)
        if cursor.blocks[-1].kind == "mix":
            return self._labels(("env",))
        if cursor.blocks[-1].kind in INSIDE:
            found = INSIDE[cursor.blocks[-1].kind]
            ends = {"remove": "remove = [", "note": "note = "}
            return [Suggestion(w, "keyword", d, insert=ends.get(w, "")) for w, d in found.items()]
        if cursor.blocks[0].kind == "experiment" and len(cursor.blocks) == 1:
            kinds = dict.fromkeys([*catalog(), *FORMULAS, *OTHERS, *SETTINGS])
            return [Suggestion(k, "kind", KIND_WORDS.get(k, ""), insert=_insert(k)) for k in kinds]
        return []

    def _fields(self, schema: type[Struct]) -> list[Suggestion]:
        given = set(self.cursor.siblings)
        out = []
        for name, facts in fields_of(schema).items():
            if name not in given:
                insert = f"{name} {{ }}" if facts.struct is not None else f"{name} = "
                rank = 1 if facts.required else 4
                out.append(Suggestion(name, "field", facts.signature, facts.doc, insert, rank))
        if len(self.cursor.blocks) == 2:
            for name, target in WIRING.get(self.cursor.blocks[-1].kind, {}).items():
                detail = f"list of {target} labels" if target else "what happens when it fails"
                if name not in given:
                    out.append(Suggestion(name, "field", detail, insert=f"{name} = [", rank=2))
        return out

    def _path(self) -> list[Suggestion]:
        """Behind a dot in a head: a nested field, or a patch's path."""
        cursor, steps = self.cursor, self.cursor.target.split(".")
        schema = self._schema(cursor.blocks)
        if schema is not None:
            facts = field_at(schema, steps)
            return self._fields(facts.struct) if facts is not None and facts.struct is not None else []
        if steps == ["patch"]:
            return [Suggestion(k, "kind", KIND_WORDS.get(k, "")) for k in (*catalog(), *FORMULAS)]
        if steps[0] == "patch" and len(steps) == 2:
            return self._labels((steps[1],))
        if steps[0] == "patch" and len(steps) > 2:
            found = self._declared(steps[2], steps[1])
            schema = _schema_of(found.item) if found else None
            return [Suggestion(n, "field", f.signature, f.doc) for n, f in fields_of(schema).items()] if schema else []
        return self._labels(("signal", "let")) if steps == ["given"] else []

    def _component(self) -> list[Suggestion]:
        head = self.cursor.head
        known = catalog().get(head.kind)
        if known is not None and not self.cursor.brackets:
            return [Suggestion(n, "component", first_paragraph(s), insert=f"{n} {{ }}") for n, s in known.items()]
        return [Suggestion(base, "type") for base in BASES]

    # ------------------------------------------------------------------------------------------------------ values

    def _value(self) -> list[Suggestion]:
        cursor = self.cursor
        schema = self._schema(cursor.blocks)
        if schema is not None:
            return self._static(schema)
        kind = cursor.head.kind
        named = self._named_arguments()
        if cursor.brackets and cursor.brackets[-1].name in OPTION_CHOICES:
            return named
        if kind == "credit":
            if not cursor.brackets:
                return [Suggestion("agent_tokens", "function", "every token that the agent sampled carries it")]
            return [*named, *self._labels(("advantage",))]
        choices = self._compared()
        if choices:
            return choices
        if kind == "signal":
            return [*(Suggestion(n, "name") for n in ("env", "user")), *self._labels(("judge", "user", "env"))]
        if kind == "remove":
            declared = (d for d in self._visible() if d.kind in catalog() or d.kind in FORMULAS)
            return [Suggestion(f"{d.kind}.{d.name}", "name", _declared_as(d)) for d in declared]
        if kind in SETTINGS:
            return [Suggestion("paper", "function")] if kind == "cites" else []
        return [*named, *self._names(), *self._functions(), *self._words()]

    def _static(self, schema: type[Struct]) -> list[Suggestion]:
        """The value of a component's field."""
        cursor = self.cursor
        name = cursor.head.kind
        target = WIRING.get(cursor.blocks[-1].kind, {}).get(name) if len(cursor.blocks) == 2 else None
        if target == "":
            return [Suggestion(rule, "function") for rule in FAILURE_RULES]
        if target:
            return self._labels((target,))
        facts = field_at(schema, cursor.head.path)
        out = []
        if facts is not None:
            out = [Suggestion(choice, "choice", f"{name} of {_owner(schema)}", rank=0) for choice in facts.choices]
            if facts.refers:
                own = cursor.blocks[-1].labels
                return [*out, *(s for s in self._labels(facts.refers) if s.label not in own)]
        params = [d for d in self._visible() if d.kind == "param"]
        out += [Suggestion(d.name, "name", _declared_as(d), rank=6) for d in params]
        return out + [Suggestion(p, "function", "a value and where it comes from", rank=7) for p in PROVENANCE]

    def _compared(self) -> list[Suggestion]:
        """Behind `tier ==` or in `tier in {`, and as named arguments of `by(tier, `: the choices of the type."""
        before = [t for t in self.cursor.before if t.start >= self.cursor.head.start]
        at = len(before) - 1
        if self.cursor.brackets and self.cursor.brackets[-1].function == "by":
            opened = next((i for i in range(at, -1, -1) if before[i].kind == "LPAR"), -1)
            subject = before[opened + 1].text if opened >= 0 and opened < at else ""
            given = self.cursor.brackets[-1].given
            return [Suggestion(c, "choice", insert=f"{c} = ") for c in self._choices_of(subject) if c not in given]
        while at >= 0 and before[at].kind in ("COMMA", "NAME", "LBRACE") and self.cursor.brackets:
            at -= 1
            if before[at + 1].kind == "LBRACE":
                break
        if at > 0 and (before[at].kind in ("COMPARE", "IN")) and before[at - 1].kind == "NAME":
            return [Suggestion(c, "choice", rank=0) for c in self._choices_of(before[at - 1].text)]
        return []

    def _choices_of(self, name: str) -> list[str]:
        for found in self._visible():
            written = found.parameter.type if found.parameter else found.item.head.type
            if found.name == name and written is not None and isinstance(written.base, tree.SetOf):
                return [n.value for n in written.base.items if isinstance(n, tree.Name)]
        return []

    def _named_arguments(self) -> list[Suggestion]:
        if not self.cursor.brackets or self.cursor.brackets[-1].kind != "LPAR" or self.cursor.brackets[-1].name:
            if self.cursor.brackets and self.cursor.brackets[-1].name in OPTION_CHOICES:
                return [Suggestion(c, "choice", rank=0) for c in OPTION_CHOICES[self.cursor.brackets[-1].name]]
            return []
        call = self.cursor.brackets[-1]
        definition = self._definition(call.function)
        if definition is not None:
            names = [(p.name.value, text_of(p)) for p in definition.head.parameters or ()]
            names = names[call.commas :]
        else:
            names = [(n, f"option of {call.function}") for n in OPTIONS.get(call.function, ())] if call.commas else []
        return [Suggestion(n, "field", d, insert=f"{n} = ", rank=3) for n, d in names if n not in call.given]

    def _definition(self, name: str) -> tree.Item | None:
        if name in standard():
            return standard()[name]
        return next((d.item for d in self._visible() if d.kind == "def" and d.name == name), None)

    def _names(self) -> list[Suggestion]:
        kinds = (*FORMULAS, "param", "parameter", "judge", "user", "def")
        return [
            Suggestion(d.name, "function" if d.kind == "def" else "name", _declared_as(d), rank=2)
            for d in self._visible()
            if d.kind in kinds and d.name != (self.cursor.head.labels or [""])[0]
        ]

    def _functions(self) -> list[Suggestion]:
        out = [Suggestion(n, "function", function_text(n), rank=5) for n in FUNCTIONS]
        return out + [Suggestion(n, "function", _signature(n, i), rank=4) for n, i in standard().items()]

    def _words(self) -> list[Suggestion]:
        return [Suggestion(w, "keyword", rank=8) for w in ("if", "not", "true", "false", "env", "user", "std")]

    def _member(self) -> list[Suggestion]:
        target = self.cursor.target
        if target == "std":
            found = standard().items()
            return [Suggestion(n.removeprefix("std."), "function", _signature(n, i)) for n, i in found]
        if target in catalog() and not self._declared(target, ""):
            labels = self._labels((target,))
            read = (
                ("env", "user", "policy", "stage")
                if self.cursor.head.kind in (*FORMULAS, "credit")
                else ("env", "user")
            )
            if target not in read:
                return labels
        out: dict[str, str] = {}
        for declaration in self._visible():
            if declaration.kind in MEASURING and target in (declaration.kind, declaration.name):
                schema = _schema_of(declaration.item)
                out |= {**schema.MEASURES, **schema.RESULTS} if schema is not None else {}
        if target == "stage":
            out["step"] = "int@step"
        return [Suggestion(name, "measure", kind) for name, kind in out.items()]

    # ----------------------------------------------------------------------------------------------------- the file

    def _visible(self) -> list[Declaration]:
        return self.document.symbols.visible(self.cursor.start)

    def _declared(self, name: str, kind: str) -> Declaration | None:
        return next((d for d in self._visible() if d.name == name and kind in ("", d.kind)), None)

    def _labels(self, kinds: Iterable[str]) -> list[Suggestion]:
        wanted = tuple(kinds)
        found = [d for d in self.document.symbols.declarations if d.kind in wanted]
        return [Suggestion(d.name, "name", _declared_as(d), rank=1) for d in found]

    def _resampling(self) -> list[Suggestion]:
        """Stages whose trajectories have formulas of their own."""
        found = [d for d in self.document.symbols.declarations if d.kind == "stage"]
        riding = [d for d in found if getattr(_schema_of(d.item), "RIDES", False)]
        return [Suggestion(d.name, "name", _declared_as(d), rank=1) for d in riding]

    @staticmethod
    def _schema(blocks: list[HeadSoFar]) -> type[Struct] | None:
        """The schema of the innermost block, when it is a component's or a struct's inside of one."""
        for at, head in enumerate(blocks):
            if head.kind in catalog() and head.component in catalog()[head.kind] and at:
                schema: type[Struct] | None = catalog()[head.kind][head.component]
                for inner in blocks[at + 1 :]:
                    facts = field_at(schema, inner.path) if schema is not None else None
                    schema = facts.struct if facts is not None else None
                return schema
        return None


def _schema_of(item: tree.Item) -> type[Component] | None:
    known = catalog().get(item.head.path[0].value, {})
    return known.get(dotted(item.head.type.base) or "") if item.head.type is not None else None


def _owner(schema: type[Struct]) -> str:
    return str(getattr(schema, "NAME", schema.__name__.lower()))


def _declared_as(declaration: Declaration) -> str:
    if declaration.parameter is not None:
        return text_of(declaration.parameter)
    return text_of(declaration.item.head)


def _signature(name: str, item: tree.Item) -> str:
    return f"{name}{text_of(item.head).removeprefix('def ').removeprefix(name.rpartition('.')[2])}"


def _insert(kind: str) -> str:
    if kind in SETTINGS or kind == "credit":
        return f"{kind} = "
    return f"{kind} "
