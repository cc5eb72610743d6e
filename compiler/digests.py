"""The four digests of an experiment, from what was typed to what is run.

    t1  text     every character
    a1  syntax   without comments, layout and superfluous parentheses
    v1  value    what it means: see `rlspec.compiler.form`
    g1  graph    the lowered plan without placement, names of people's (title, notes) and formulas' texts

Each is its scheme, a colon and 64 hex digits of SHA-256. Nothing of the machine, the clock or a path enters them.
A stored plan has no text and no syntax.
"""

from __future__ import annotations

import hashlib

from rlspec.compiler.check import check
from rlspec.compiler.experiment import Experiment
from rlspec.compiler.form import Form, form_of
from rlspec.compiler.plan import ESTIMATES, Plan, canonical, drop_unused
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.printer import text_of

_PLACEMENT = ("roles", "bundles", "strategy", "ready_within", "step_within")


@dataclass(frozen=True, slots=True)
class Digests:
    """`text` and `syntax` are None for a stored plan."""

    text: str | None
    syntax: str | None
    value: str
    graph: str


@dataclass(slots=True)
class Side:
    """One experiment to compare: a spec, perhaps with one of its variants, or a plan (then without source and
    experiment). `name` is what it was called on the command line. The texts of variants are not compared: one file
    holds several."""

    name: str
    plan: Plan
    source: Source | None = None
    experiment: Experiment | None = None
    variant: str | None = None
    form: Form = field(init=False)

    def __post_init__(self) -> None:
        self.form = form_of(self.plan)

    @property
    def digests(self) -> Digests:
        text = syntax = None
        if self.source is not None and self.variant is None:
            text = text_digest(self.source.text)
            syntax = syntax_digest(parser.parse(self.source)[0])
        return Digests(text, syntax, self.form.digest, graph_digest(self.plan))


def side_of(source: Source, name: str | None = None, variant: str | None = None) -> Side:
    """A spec as a side of a comparison.

    Raises:
        SpecError: its errors.
    """
    found = check(source, variant=variant)
    if found.plan is None:
        raise SpecError(d if d.source is not None else replace(d, source=source) for d in found.errors)
    return Side(name or source.path, found.plan, source, found.experiment, variant)


def text_digest(text: str) -> str:
    return "t1:" + hashlib.sha256(text.encode()).hexdigest()


def syntax_digest(file: tree.File) -> str:
    """Of a file that parses; numbers count as they were spelt."""
    return "a1:" + hashlib.sha256(canonical([_item(i) for i in file.items]).encode()).hexdigest()


def item_digest(item: tree.Item) -> str:
    """Of one item, as `syntax_digest`."""
    return "a1:" + hashlib.sha256(canonical(_item(item)).encode()).hexdigest()


def graph_digest(plan: Plan) -> str:
    """Of the lowered plan. Where roles run, and the texts that plans carry for readers, do not count."""
    body: dict[str, Any] = plan.model_dump(mode="json", exclude={"name", "title", "notes", "sources", *ESTIMATES})
    body["sources"] = [dict(source) for source in plan.sources]  # programs are written as they are
    for word in _PLACEMENT:
        body["graph"].pop(word, None)
    body["policy"]["fields"].pop("shape", None)
    drop_unused(body)
    for source in body["sources"]:
        source.pop("formulas", None)
        source["terms"] = [term.output for term in source["terms"]]
    return "g1:" + hashlib.sha256(canonical(body).encode()).hexdigest()


def _item(item: tree.Item) -> list[Any]:
    value = text_of(item.value) if item.value is not None else None
    return [text_of(item.head), value, [_item(i) for i in item.body] if item.body is not None else None]
