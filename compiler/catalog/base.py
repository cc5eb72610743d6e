"""What a component's schema is made of.

A component (an environment, a user, a judge, a policy, a stage ...) is declared by one class of records: its fields are
what a spec may write between the braces, with unit, range, default and one line of documentation each. The class is
all that the compiler knows of a component; the code that runs it lives in `rlspec.runtime` and takes an instance.

    class Shop(Component):
        \"\"\"An online shop's service desk.\"\"\"
        KIND = "env"
        NAME = "shop"
        MEASURES = {"verified": "int@traj in {0, 1}"}
        max_turns: Annotated[int, Unit("agent_turns"), Field(ge=1, description="turns before the talk is cut")] = 16

Rules: every number that matters is a field; closed schemas (an unknown field is an error); frozen; a choice is a
`Literal`; a nested block is a `Struct`; a name of another declaration is `Annotated[str, Ref("env")]`.
"""

from __future__ import annotations

import math

from rlspec.compiler.records import Field, Record
from rlspec.dsl.annotations import Annotated, ClassVar
from rlspec.dsl.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a field's numbers, as specs write it behind them: `16agent_turns`, `320tokens`, `130steps`."""

    name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A field whose value is the label of a declaration of this kind."""

    kind: str


class Secret(Record):
    """The type of a field that takes `secret("NAME")`: the name of an environment variable, which the runtime reads
    when it needs the value. The value never enters a component, a plan or a digest, because nothing here holds it."""

    secret: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Struct(Record):
    """A nested block of fields."""


class Component(Struct):
    """A declarable part. `MEASURES` are the signals that it can measure, each as a type in the language; `RUNS` is
    False for what can be checked and compiled but has no runtime here. `FACTORY` is the import path of what makes a
    plugin's component, `package.module:factory`; only the runtime imports it."""

    KIND: ClassVar[str]
    NAME: ClassVar[str]
    MEASURES: ClassVar[dict[str, str]] = {}
    # What a stage finds: "table(signal)" is a real per choice of the signal that its field `signal` names.
    RESULTS: ClassVar[dict[str, str]] = {}
    # Fields that it takes over, where it stands in for another component that has them written.
    KEEPS: ClassVar[tuple[str, ...]] = ()
    # Fields of an environment that decide what counts as solved and change nothing of what is said or shown.
    VERDICT: ClassVar[tuple[str, ...]] = ()
    RUNS: ClassVar[bool] = True
    FACTORY: ClassVar[str | None] = None

    def bounds(self, result: str) -> tuple[float, float]:
        """Between which numbers every value of a result lies, before the stage has run."""
        return -math.inf, math.inf
