"""Does the value digest know meaning from spelling? Rewrites that keep the meaning must keep it; changes of a single
value must alter it, and the diff must name exactly the path of that value and verify itself.

    python bench/language/digests.py --count 1000 specs/papers/*.rlspec
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rewrites

from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side, side_of
from rlspec.dsl import parser
from rlspec.dsl.diagnostics import Source, SpecError


@dataclass(slots=True)
class Outcome:
    """What one spec gave: how many of each kind, which failed and how."""

    kept: int = 0
    rewrites: int = 0
    altered: int = 0
    named: int = 0
    verified: int = 0
    changes: int = 0
    sites: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)


def keep(side: Side, count: int, rng: random.Random, out: Outcome) -> None:
    """Rewrites that keep the meaning. What the checker refuses (a sum out of its range's reach) is drawn again."""
    assert side.source is not None
    file = parser.parse(side.source)[0]
    seen: set[str] = set()
    for _ in range(20 * count):
        if out.rewrites == count:
            return
        text, names = rewrites.rewritten(file, rng)
        if text in seen:
            continue
        seen.add(text)
        try:
            other = side_of(Source("rewritten", text))
        except SpecError as error:
            out.refused += 1
            if out.refused <= 3:
                out.failures.append(f"refused after {names}: {error}")
            continue
        out.rewrites += 1
        out.used.update(names)
        if other.form.digest == side.form.digest:
            out.kept += 1
        else:
            where = [row.where for row in difference(side, other).rows]
            out.failures.append(f"{names} changed {where}")


def change(side: Side, count: int, rng: random.Random, out: Outcome) -> None:
    """Single changes. Values that the checker refuses are drawn again."""
    assert side.source is not None
    text = side.source.text
    places = rewrites.sites(parser.parse(side.source)[0])
    touched = set()
    for _ in range(20 * count):
        if out.changes == count:
            break
        site = rng.choice(places)
        new = rewrites.changed(text, site, rng)
        if new == text:
            continue
        try:
            other = side_of(Source("changed", new))
        except SpecError:
            continue
        out.changes += 1
        touched.add(site)
        found = difference(side, other)
        names = {row.where for row in found.rows}
        out.altered += not found.equal
        out.named += names == site.paths
        out.verified += found.verified
        if found.equal or names != site.paths or not found.verified:
            old = text[site.span.start : site.span.stop]
            out.failures.append(f"{old!r} at {sorted(site.paths)}: diff names {sorted(names)}, {found.level}")
    out.sites = len(touched)


def measure(path: Path, count: int, seed: int) -> Outcome:
    """Both, on one spec."""
    out, start = Outcome(), time.process_time()
    side = side_of(parser.read(path))
    keep(side, count, random.Random(seed), out)
    change(side, count, random.Random(seed + 1), out)
    out.seconds = time.process_time() - start
    return out


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("specs", nargs="+", type=Path)
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    print("| spec | rewrites that keep the digest | changes that alter it | diff names exactly the path | verified "
          "| places changed | CPU s |\n|---|---|---|---|---|---|---|")  # fmt: skip
    bad = 0
    for path in given.specs:
        out = measure(path, given.count, given.seed)
        n, m = out.rewrites, out.changes
        print(f"| {path.stem} | {out.kept} of {n} | {out.altered} of {m} | {out.named} of {m} | {out.verified} of {m} "
              f"| {out.sites} | {out.seconds:.0f} |", flush=True)  # fmt: skip
        for failure in out.failures[:20]:
            print(f"  {path.stem}: {failure}", file=sys.stderr)
        bad += out.kept < n or out.named < m or out.verified < m or n < given.count or m < given.count
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
