"""Binding times: when a value of a program is known, and tables that a stage finds.

    static            before the run: constants and params
    after calibrate   when that stage has run: what is read from its tables
    per step          it follows the number of the training step
    per sample        it needs trajectories

A program whose tables are open cannot be evaluated; `bind` fills them in. It never changes a program: candidates of a
search are bound one after the other from the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlspec.compiler.formula import step_text
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.program import Program, Step
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BindingTime:
    """When a value is known. `tables` are the open tables it reads ("calibrate.weight"), `level` the finest level that
    it varies with."""

    level: Level
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`static`, `per step`, `per sample, after calibrate` ..."""
        stages = list(dict.fromkeys(table.partition(".")[0] for table in self.tables))
        after = f"after {', '.join(stages)}" if stages else ""
        if self.level is Level.CONST:
            return after or "static"
        per = "per step" if self.level is Level.STEP else "per sample"
        return f"{per}, {after}" if after else per


def times(program: Program) -> list[BindingTime]:
    """The binding time of every step."""
    found: list[BindingTime] = []
    for step in program.steps:
        tables = [t for a in step.args for t in found[a].tables]
        if step.op == "lookup":
            tables.append(step.attrs["table"])
        # a mean over the whole batch is a value per step, and still needs the samples
        sampled = any(found[a].level > Level.STEP for a in step.args)
        level = max(BY_LABEL[step.level], Level.GROUP) if sampled else BY_LABEL[step.level]
        if step.op == "input" and step.attrs["name"] != "step":
            level = max(level, Level.GROUP)
        found.append(BindingTime(level, tuple(dict.fromkeys(tables))))
    return found


def time_of(program: Program, output: str) -> BindingTime:
    """The binding time of a named result."""
    return times(program)[program.outputs[output]]


def tables_of(program: Program) -> dict[str, int]:
    """The tables that a program reads and that are still open: name -> number of values."""
    return {s.attrs["table"]: s.attrs["size"] for s in program.steps if s.op == "lookup" and s.attrs["values"] is None}


def bind(program: Program, tables: Mapping[str, Sequence[float]]) -> Program:
    """The program with these tables filled in, each a value per choice in the order of the signal's type. Tables that
    it does not read are of no interest to it; those that are not given stay open.

    Raises:
        ValueError: a table of another size.
    """

    def bound(step: Step) -> Step:
        if step.op != "lookup" or step.attrs["table"] not in tables:
            return step
        values = [float(v) for v in tables[step.attrs["table"]]]
        if len(values) != step.attrs["size"]:
            raise ValueError(f"`{step.attrs['table']}` holds {step.attrs['size']} values, not {len(values)}")
        attrs: dict[str, Any] = {**step.attrs, "values": values}
        return step.model_copy(update={"attrs": attrs})

    return program.model_copy(update={"steps": tuple(bound(s) for s in program.steps)})


def waiting(program: Program) -> dict[str, str]:
    """What a program waits for: its tables and schedules as text, each with the time at which it is known."""
    out: dict[str, str] = {}
    for at, step in enumerate(program.steps):
        if step.op == "lookup":
            owner = step.attrs["table"].partition(".")[0]
            bound = step.attrs["values"] is not None
            out.setdefault(step_text(program, at), "bound" if bound else f"after {owner}")
        elif step.op == "anneal":
            out.setdefault(step_text(program, at), "per step")
    return out
