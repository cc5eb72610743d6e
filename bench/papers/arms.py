"""The arms of a comparison, as `bench/papers/<paper>.toml` lists them, and where their runs are.

A new comparison is one such file; `run.py` reads all of them again before every job, so an arm that is added while it
works is run without a restart. Nothing else has to be told of it.

    title = "Fission-GRPO"
    spec = "specs/papers/fission.rlspec"
    baseline = "plain"                       # the arm with which the others are compared, seed by seed
    evaluation = "held_out"                  # the stage whose last `success` is the result
    overlays = ["specs/scale/laptop.rlspec", "bench/papers/regime.rlspec"]   # of all arms, in this order
    seeds = [0, 1, 2, 3, 4]                  # these where the key is left out
    place = 2                                # among the comparisons of a seed; 9 where the key is left out

    [[arm]]
    label = "plain"                          # a folder's name
    title = "plain GRPO"                     # the table's row
    variant = "grpo"                         # of the spec; none where the key is left out
    overlays = ["bench/papers/fission_plain.rlspec"]   # after those of all arms
    spec = "..."                             # where it is another than the comparison's

    [[column]]                               # columns beside those that every table has
    title = "recovered"
    metric = "fission.recovered"             # a key of metrics.jsonl; "*.x" is the first that ends in ".x", "~x" that
                                             # or x itself; "first x" is over the stage's first lines
    stage = "train"                          # the mean over its last ten lines; an evaluation has one
    percent = true

What all arms of a comparison share belongs in its overlays: the same evaluation, and as many episodes for each. Cold
starts are kept by what they are made of, so arms with equal ones learn it once per seed. The run of an arm and a seed
is in `runs/papers/<paper>/<arm>/<seed>`, what it printed in `<seed>.log` beside it, and what came of it in
`<seed>.json`: exit status, CPU and wall seconds.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of a comparison. `overlays` are all that apply, in their order."""

    label: str
    title: str
    spec: str
    variant: str | None
    overlays: tuple[str, ...]

    def words(self) -> list[str]:
        """What comes behind `rlc run`, without seed and folder."""
        variant = ["--variant", self.variant] if self.variant else []
        return [self.spec, *variant, *(word for o in self.overlays for word in ("--with", o))]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a comparison has beside those of all: the mean of a metric over a stage's last lines, or over its
    first ones."""

    title: str
    metric: str
    stage: str
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Paper:
    """A comparison."""

    name: str
    title: str
    baseline: str
    evaluation: str
    seeds: tuple[int, ...]
    place: int
    arms: tuple[Arm, ...]
    columns: tuple[Column, ...] = field(default=())


def paper(path: Path) -> Paper:
    """Read a list.

    Raises:
        ValueError, KeyError: it is not one.
    """
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    shared = tuple(found.get("overlays", ()))
    arms = tuple(
        Arm(
            label=arm["label"],
            title=arm.get("title", arm["label"]),
            spec=arm.get("spec", found["spec"]),
            variant=arm.get("variant"),
            overlays=(*shared, *arm.get("overlays", ())),
        )
        for arm in found["arm"]
    )
    labels = [arm.label for arm in arms]
    if len(set(labels)) < len(labels) or found["baseline"] not in labels:
        raise ValueError(f"{path}: every arm needs a label of its own, and the baseline is one of them")
    columns = tuple(Column(**column) for column in found.get("column", ()))
    seeds = tuple(found.get("seeds", SEEDS))
    place = int(found.get("place", 9))
    return Paper(path.stem, found["title"], found["baseline"], found["evaluation"], seeds, place, arms, columns)


def papers(folder: Path = HERE) -> list[Paper]:
    """All comparisons, in the order in which a seed goes through them. A list that cannot be read is told of and left
    out, so that one that is being written does not stop the others."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        try:
            found.append(paper(path))
        except (ValueError, KeyError, TypeError) as error:
            print(f"left out: {path}: {error!r}", file=sys.stderr)
    return sorted(found, key=lambda p: (p.place, p.name))


@dataclass(frozen=True, slots=True)
class Job:
    """An arm with a seed. `folder` is its run's."""

    paper: str
    arm: Arm
    seed: int
    folder: Path

    @property
    def record(self) -> Path:
        """Where it is written what came of it."""
        return self.folder.parent / f"{self.seed}.json"

    def outcome(self) -> dict[str, Any] | None:
        """What came of it; None while nothing has."""
        return json.loads(self.record.read_text(encoding="utf-8")) if self.record.exists() else None


def jobs(found: Sequence[Paper], out: Path) -> Iterator[Job]:
    """All jobs in their order: seed by seed, so that every comparison is balanced whenever it stops; within a seed the
    first arms of all comparisons, then the second ones, and so on."""
    for seed in sorted({seed for p in found for seed in p.seeds}):
        for position in range(max(len(p.arms) for p in found)):
            for p in found:
                if seed in p.seeds and position < len(p.arms):
                    arm = p.arms[position]
                    yield Job(p.name, arm, seed, out / p.name / arm.label / str(seed))
