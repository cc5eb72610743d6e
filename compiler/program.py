"""Programs: reward and advantage formulas after checking, as a shared graph of steps.

A program is what the plan carries in place of source text. It is in single-assignment form: step `i` may only refer to
steps before it, equal subexpressions are one step, and every choice that libraries usually hide (degrees of freedom,
epsilon, what a group of one does, what zero variance does) is an attribute of the step that makes it, so it is part of
the digest. Two implementations give a program its numbers, and a test holds them together to 1e-9: the plain
`rlspec.compiler.evaluator` and the generated kernels of `rlspec.compiler.kernels`.

Operations (`Step.op`), with `args` as indices of earlier steps and `attrs` in parentheses:

| op | args | level | meaning |
|---|---|---|---|
| `const` (value) | | CONST | a float64 |
| `input` (name) | | of the signal | a signal of the batch |
| `index` (axis) | | turn, token | 0-based position of the member in its parent along `axis` (`turn`: in its trajectory) |
| `num` (axis) | | parent of axis | number of members: `turn` -> TRAJ, `traj` -> GROUP, `token` -> TURN, `group` -> STEP |
| `add sub mul div pow` | x, y | finest | arithmetic in float64; `x / 0` is 0 where x is 0, else an infinity |
| `neg abs sign exp log sqrt cos` | x | same | elementwise |
| `min2 max2` | x, y | finest | elementwise |
| `clip` | x, low, high | finest | `min(max(x, low), high)` |
| `eq ne lt le gt ge` | x, y | finest | 1.0 or 0.0, exact comparison |
| `and or not` | x (, y) | finest | of 0.0 / nonzero |
| `select` | c, x, y | finest | x where c is nonzero, else y |
| `lookup` (table, size, values) | code | same as code | the table's value of a code: `values[code]`, not a number for any other code; `values` is None until the stage that finds them has run and `rlspec.compiler.binding.bind` has filled them in |
| `anneal` (over, shape) | step, start, end | finest | start + (end - start) * s, where s grows with t = min(step / over, 1): `linear` is t, `cosine` is (1 - cos(pi * t)) / 2 |
| `reduce` (fn, axes, empty) | x (, where) | parent of the coarsest axis | `sum mean min max any all count first last`; `count` counts the nonzero; members whose `where` is 0 are left out; `empty` is the value over no member (sum, count, any: 0; all: 1) |
| `normalise` (fn, axes, align, ddof, epsilon, singleton, zero_variance, missing) | x | same as x | see below |
| `scan` (fn, axis) | x, discount | same as x | `suffix_sum`: y[k] = x[k] + discount * y[k+1]; `prefix_sum`: y[k] = x[k] + discount * y[k-1]; within the parent of `axis` |
| `gae` (axis) | r, value, gamma, lam | same as r | generalised advantage estimate, last value bootstraps 0: delta[k] = r[k] + gamma * value[k+1] - value[k]; A[k] = delta[k] + gamma * lam * A[k+1]; runs along `axis` over the whole trajectory (axis `token` runs through all agent tokens of the trajectory, across turns) |
| `top` (axes, share) | x | same as x | 1.0 for the ceil(share * n) largest of the n members of a pool and for all that equal the smallest of them, else 0.0 |

`reduce` over `traj` gives GROUP, over `turn` gives TRAJ, over `token` gives TURN; a tuple of adjacent axes pools:
`("traj", "turn")` of a turn value gives GROUP, `("group", "traj")` of a trajectory value gives STEP.

`normalise`: `fn` is `zscore`, `center` or `rank` (average rank scaled to [-1, 1]; ties share). `axes` is the pool:
`("traj",)` of a trajectory value normalises within its group; `("traj", "turn")` pools all turns of all trajectories of
the group; `("group", "traj", "token")` and the like pool the whole step. `align = "turn"` with axes `("traj",)` compares
turn k only with turn k of the other trajectories of the group (`missing = "absent"`: trajectories without a turn k are
no members there; `missing = "zero"`: they count as members of value 0). The pool is *dead* exactly when max == min: then
the result is `zero_variance` (a number, 0.0), never noise. A pool of one gives `singleton`: `"zero"` or `"raw"` (x
itself). zscore = (x - mean) / (std + epsilon) with std of `n - ddof` degrees of freedom.

Inputs of text or enumerated type arrive as codes (float64 holding whole numbers); `eq`/`ne` on them is exact.
"""

from __future__ import annotations

from rlspec.compiler.records import Field, Record
from rlspec.dsl.annotations import Any, Literal

LevelName = Literal["const", "step", "group", "traj", "turn", "token"]

ELEMENTWISE: dict[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "neg": 1, "abs": 1, "sign": 1, "exp": 1, "log": 1, "sqrt": 1,
    "min2": 2, "max2": 2, "clip": 3, "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2, "and": 2, "or": 2, "not": 1,
    "select": 3, "cos": 1, "lookup": 1, "anneal": 3,
}  # fmt: skip
REDUCERS = ("sum", "mean", "min", "max", "any", "all", "count", "first", "last")
NORMALISERS = ("zscore", "center", "rank")
SCANS = ("suffix_sum", "prefix_sum")
SHAPES = ("linear", "cosine")
CROSSING = ("reduce", "normalise", "scan", "gae", "top")
"""Operations that cross members: they have a pool, see `rlspec.compiler.pools`."""


class Step(Record):
    """One operation; its result is known by its position in `Program.steps`."""

    op: str
    args: tuple[int, ...] = ()
    level: LevelName
    attrs: dict[str, Any] = Field(default_factory=dict)


class Input(Record):
    """A signal that the batch must bring: `name`, its level, and how its values are to be read."""

    name: str
    level: LevelName
    type: Literal["real", "int", "bool", "code"] = "real"


class Program(Record):
    """The formulas of one source (env): what comes in, the steps, and which steps are its named results.

    `outputs` maps a result's name (a reward, a term, an advantage) to a step. Every output is written for every member
    of its level.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: dict[str, int]
