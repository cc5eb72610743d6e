"""What came out of a synthesis: the environments, and the table of what each filter let through."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rlspec.runtime.worlds.codegym.environment import Environment


@dataclass(slots=True)
class Count:
    """A filter's yield: problems and tasks (configurations) that came in and that it let through."""

    filter: str
    problems: int = 0
    tasks: int = 0
    problems_in: int = 0
    tasks_in: int = 0
    why: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Made:
    """What came out."""

    environments: list[Environment]
    table: list[Count]

    def lines(self) -> list[str]:
        """The table as text: what each filter let through of what came to it, and the most frequent reasons."""
        head = f"{'filter':<44} {'problems':>14} {'tasks':>16}   why not"
        rows = [
            f"{c.filter:<44} {f'{c.problems} of {c.problems_in}':>14} {f'{c.tasks} of {c.tasks_in}':>16}   "
            + "; ".join(f"{n} x {reason}" for reason, n in c.why.most_common(3))
            for c in self.table
        ]
        return [line.rstrip() for line in [head, *rows]]

    def metrics(self) -> dict[str, float]:
        """Numbers of the table, for a run's metrics."""
        out = {}
        for count in self.table:
            name = count.filter.split(":")[0].replace(" ", "_")
            out[f"{name}.problems"], out[f"{name}.tasks"] = float(count.problems), float(count.tasks)
        return out
