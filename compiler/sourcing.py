"""What a spec says about itself without changing what it does: where its numbers come from, its title, its claims, the
ranges that it declares."""

from __future__ import annotations

from rlspec.compiler.experiment import Experiment
from rlspec.compiler.form import FORMULAS, Path
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.printer import text_of

SOURCED = ("reported", "assumed", "chosen")
STATED = ("title", "note", "cites", "claims", "test", "variant", "overlay", "sweep", "claim")


@dataclass(frozen=True, slots=True)
class Sourcing:
    """`reported`, `assumed` or `chosen`, with its note."""

    kind: str
    note: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.note}" if self.note else self.kind


def sources_of(experiment: Experiment | None) -> dict[Path, Sourcing]:
    """The provenance of every constant that has one, by path; params as ("param", name)."""
    if experiment is None:
        return {}
    out: dict[Path, Sourcing] = {}
    for kind, group in experiment.components.items():
        for label, declared in group.items():
            for dotted, origin in declared.origins.items():
                if origin.kind in SOURCED:
                    out[kind, label, *dotted.split(".")] = Sourcing(origin.kind, origin.note)
    for name, leaf in experiment.params.items():
        if leaf.origin.kind in SOURCED:
            out["param", name] = Sourcing(leaf.origin.kind, leaf.origin.note)
    return out


def statements(a: Experiment | None, b: Experiment | None) -> list[tuple[str, str | None, str | None]]:
    """(what, before, after) of the statements that differ; nothing when one side has no text."""
    if a is None or b is None:
        return []
    ours, theirs = _statements(a), _statements(b)
    out = [] if a.name == b.name else [("name", a.name, b.name)]
    keys = dict.fromkeys((*ours, *theirs))
    return [*out, *((k, ours.get(k), theirs.get(k)) for k in keys if ours.get(k) != theirs.get(k))]


def _statements(experiment: Experiment) -> dict[str, str]:
    out: dict[str, str] = {}
    for item in experiment.item.body or ():
        kind = item.head.path[0].value
        label = ".".join([kind, *(str(name.value) for name in item.head.labels)])
        if kind in STATED:
            out[label] = _text(item)
        elif kind in FORMULAS and item.head.type is not None:
            on = f" on {item.head.on.value}" if item.head.on else ""
            out[f"declared type of {label}{on}"] = text_of(item.head.type)
    return out


def _text(item: tree.Item) -> str:
    if item.value is not None:
        return text_of(item.value)
    parts: list[Any] = [f"{text_of(i.head)} {'= ' if i.value is not None else ''}{_text(i)}" for i in item.body or ()]
    return "{ " + "  ".join(parts) + " }"
