"""What lints look at, and how they ask for it: fields as written, and whether a value is meant as it stands."""

from __future__ import annotations

from collections.abc import Iterator

from rlspec.compiler.catalog.stages import Evaluate, Grpo
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formulas import Formulas
from rlspec.compiler.functions import PROVENANCE
from rlspec.dsl import tree
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Scene:
    """What lints look at: an experiment without errors and the formulas of its environments."""

    experiment: Experiment
    sources: list[Formulas]

    def stages(self, schema: type) -> Iterator[tuple[Declared, object]]:
        """Stages of a component class, with the component."""
        for declared in self.experiment.of("stage").values():
            if isinstance(declared.component, schema):
                yield declared, declared.component

    def training(self) -> list[tuple[Declared, Grpo]]:
        return [(d, c) for d, c in self.stages(Grpo) if isinstance(c, Grpo)]

    def evaluations(self) -> list[tuple[Declared, Evaluate]]:
        return [(d, c) for d, c in self.stages(Evaluate) if isinstance(c, Evaluate)]


def place(declared: Declared, path: str) -> tree.Span:
    """Where a field was written, `kl.estimator` or `kl { estimator = … }`; the declaration's head where it was not."""
    body, rest = declared.item.body or (), path.split(".")
    while rest:
        for item in body:
            names = [n.value for n in item.head.path]
            if names == rest[: len(names)]:
                if len(names) == len(rest):
                    return item.span
                body, rest = item.body or (), rest[len(names) :]
                break
        else:
            break
    return declared.item.head.span


def meant(declared: Declared, path: str) -> bool:
    """Whether the field's value says where it comes from."""
    origin = declared.origins.get(path)
    return origin is not None and origin.kind in PROVENANCE


def written(declared: Declared, path: str) -> bool:
    """Whether the spec gives the field at all."""
    return path in declared.origins


def warn(code: str, message: str, span: tree.Span | None, label: str = "", *notes: str) -> Diagnostic:
    """A warning."""
    return Diagnostic(code, message, span, severity="warning", label=label, notes=notes)


def place_value(declared: Declared, path: str) -> object:
    """The value of a field by its dotted path, of a component without errors."""
    value: object = declared.component
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
