"""Every definition of the standard library: the plain evaluator against its compiled kernel, on random ragged batches.

    python bench/language/evaluator.py --batches 1000

Of each definition a program is made whose inputs are its parameters, at the levels of their types; parameters that are
constants are drawn from their ranges, or keep their defaults. Batches are ragged with nothing at some places, and their
values are few (so that ties and groups without differences are common), all equal, or many over seven orders of
magnitude. A difference is relative to the largest value of its result in the batch. A group whose results are all
exactly 0 for the evaluator must be so for the kernel: those are counted as dead, and as lost where they are not. Where
all groups of a step are one pool, the step takes the group's place.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rlspec.compiler.builder import Builder, Value
from rlspec.compiler.elaborate import Elaborator, Scope
from rlspec.compiler.evaluator import evaluate
from rlspec.compiler.kernels import source
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.library import standard
from rlspec.compiler.pools import pool
from rlspec.compiler.program import Program
from rlspec.compiler.ranges import INF, Range
from rlspec.compiler.types import Type, read_type
from rlspec.dsl import tree
from rlspec.dsl.diagnostics import Diagnostic, SpecError
from rlspec.runtime.record.ragged import RaggedBatch

Run = Callable[[RaggedBatch], dict[str, np.ndarray]]
BAR = 1e-9
NOWHERE = tree.Span(0, 0)


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition as a program; `types` are those of its inputs."""

    name: str
    program: Program
    types: dict[str, Type]


@dataclass(slots=True)
class Found:
    """What was measured of a definition; `lost` are dead groups that the kernel brought to life."""

    batches: int = 0
    members: int = 0
    dead: int = 0
    lost: int = 0
    largest: float = 0.0

    @property
    def good(self) -> bool:
        return self.largest <= BAR and not self.lost


def definitions(seed: int = 0) -> Iterator[Definition]:
    """All of the standard library, with constants drawn once.

    Raises:
        SpecError: one cannot be elaborated.
    """
    for name, item in sorted(standard().items()):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        yield _definition(name, item, rng)


def _definition(name: str, item: tree.Item, rng: np.random.Generator) -> Definition:
    report: list[Diagnostic] = []
    elaborator = Elaborator(Builder(), report)
    elaborator.clock = lambda: Value(elaborator.builder.input("step", Level.STEP, "int"), "int", Level.STEP, Range(0))
    elaborator.horizon = 9.0
    types: dict[str, Type] = {"step": Type("int", Level.STEP, Range(0.0, 20.0))}
    names: dict[str, Any] = {}
    given: list[tree.Argument] = []
    for parameter in item.head.parameters or ():
        wanted = read_type(parameter.type, report)
        assert wanted is not None, name
        if parameter.default is not None and wanted.level <= Level.STEP and rng.random() < 0.5:
            continue  # half of the constants keep their defaults
        word = tree.Name(parameter.name.value, NOWHERE)
        names[word.value] = _argument(word.value, wanted, elaborator, rng)
        types[word.value] = wanted
        given.append(tree.Argument(word, word, (), None, None, NOWHERE))
    function = tree.Member(tree.Name("std", NOWHERE), tree.Name(name.removeprefix("std."), NOWHERE), NOWHERE)
    scope = Scope(names, standard(), lambda *_: None)
    value = elaborator.value(tree.Call(function, tuple(given), NOWHERE), scope)
    if errors := [d for d in report if d.severity == "error"]:
        raise SpecError(errors)
    return Definition(name, elaborator.builder.program({"result": value.step}), types)


def _argument(name: str, wanted: Type, elaborator: Elaborator, rng: np.random.Generator) -> Value:
    """A parameter's value: an input at its level, or a constant."""
    if wanted.level > Level.CONST:
        kind = "code" if wanted.base == "enum" else wanted.base
        step = elaborator.builder.input(name, wanted.level, kind)
        return Value(step, wanted.base, wanted.level, wanted.range, wanted.choices)
    if wanted.choices:
        code = float(rng.integers(len(wanted.choices)))
        return Value(elaborator.builder.const(code), "enum", Level.CONST, Range(), wanted.choices)
    low, high = max(wanted.range.low, 0.1), min(wanted.range.high, 5.0)
    return elaborator.constant(float(np.round(rng.uniform(low, max(low, high)), 3)))


# ------------------------------------------------------------------------------------------------------------ batches


def batch(definition: Definition, rng: np.random.Generator) -> RaggedBatch:
    """A random batch with the definition's inputs."""
    offsets, parents = [], int(rng.integers(0, 6))
    for most in (9, 8, 6):
        offsets.append(np.concatenate(([0], np.cumsum(rng.integers(0, most + 1, parents)))).astype(np.int64))
        parents = int(offsets[-1][-1])
    out = RaggedBatch(*offsets)
    for entry in definition.program.inputs:
        out.signals[entry.name] = _values(definition.types[entry.name], out.size(BY_LABEL[entry.level]), rng)
    return out


def _values(wanted: Type, size: int, rng: np.random.Generator) -> np.ndarray:
    if wanted.choices:
        return rng.integers(0, len(wanted.choices), size).astype(np.float64)
    if wanted.base == "bool":
        return rng.integers(0, 2, size).astype(np.float64)
    if wanted.range.values is not None:
        return rng.choice(sorted(wanted.range.values), size)
    low, high = wanted.range.low, wanted.range.high
    style = rng.integers(3)
    if style == 0:
        found = rng.choice([-1.0, 0.0, 1.0, 0.3, 1 / 3], size)
    elif style == 1:
        found = np.full(size, rng.choice([0.0, 0.3, 1 / 3, -7.0]))
    else:
        found = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4)
    if wanted.base == "int":
        found = np.round(found)
    return found if (low, high) == (-INF, INF) else np.clip(found, low, high)


# --------------------------------------------------------------------------------------------------------- comparison


def compiled(program: Program) -> Run:
    """The kernel as runs have it."""
    from rlspec.runtime.scoring import Kernel

    return Kernel(program)


def interpreted(program: Program) -> Run:
    """The kernel's text run by Python, which takes no time to compile."""
    scope: dict[str, Any] = {}
    exec(source(program), scope)

    def run(given: RaggedBatch) -> dict[str, np.ndarray]:
        results = {
            name: np.full(given.size(BY_LABEL[program.steps[at].level]), 1e200) for name, at in program.outputs.items()
        }
        offsets = (given.group_offsets, given.turn_offsets, given.token_offsets)
        with np.errstate(all="ignore"):
            scope["kernel"](*offsets, *(given.signals[i.name] for i in program.inputs), *results.values())
        return results

    return run


def compare(definition: Definition, kernel: Run, batches: int, seed: int = 0) -> Found:
    """Both on so many batches."""
    rng = np.random.default_rng([seed, zlib.crc32(definition.name.encode()), 1])
    program = definition.program
    level = BY_LABEL[program.steps[program.outputs["result"]].level]
    whole = any(pool(step).scope <= Level.STEP for step in program.steps if step.op == "normalise")
    found = Found()
    for _ in range(batches):
        given = batch(definition, rng)
        expected = np.array(evaluate(program, given)["result"])
        result = kernel(given)["result"]
        found.batches += 1
        found.members += len(expected)
        found.largest = max(found.largest, difference(expected, result))
        for members in [np.arange(len(expected))] if whole else _groups(given, level):
            if len(members) and not np.any(expected[members]):
                found.dead += 1
                found.lost += bool(np.any(result[members]))
    return found


def difference(expected: np.ndarray, result: np.ndarray) -> float:
    """The largest difference relative to the largest finite value; infinite where one of the two is no number."""
    finite = np.isfinite(expected)
    if not np.array_equal(np.isfinite(result), finite) or not np.array_equal(
        expected[~finite], result[~finite], equal_nan=True
    ):
        return INF
    if not finite.any():
        return 0.0
    gap = float(np.max(np.abs(expected[finite] - result[finite])))
    scale = float(np.max(np.abs(expected[finite])))
    return 0.0 if not gap else gap / scale if scale else INF


def _groups(given: RaggedBatch, level: Level) -> Iterator[np.ndarray]:
    """The members of each group; of coarser results all of them."""
    if level < Level.GROUP:
        yield np.arange(1)
        return
    cuts = np.arange(len(given.group_offsets)) if level is Level.GROUP else given.group_offsets
    for finer, offsets in ((Level.TURN, given.turn_offsets), (Level.TOKEN, given.token_offsets)):
        if level >= finer:
            cuts = offsets[cuts]
    for first, last in pairwise(cuts):
        yield np.arange(first, last)


def main() -> int:
    """Print the table; status 1 when a definition is beyond the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--interpreted", action="store_true", help="run the kernels' text by Python")
    options = parser.parse_args()
    began, worst = time.process_time(), 0
    print("| definition | batches | values | dead pools | of them not exactly 0 | largest relative difference |")
    print("|---|---|---|---|---|---|")
    for definition in definitions(options.seed):
        kernel = (interpreted if options.interpreted else compiled)(definition.program)
        found = compare(definition, kernel, options.batches, options.seed)
        worst += not found.good
        print(f"| {definition.name} | {found.batches:,} | {found.members:,} | {found.dead:,} | {found.lost} | "
              f"{found.largest:.1e} |", flush=True)  # fmt: skip
    print(f"\n{time.process_time() - began:.0f} s of CPU time")
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
