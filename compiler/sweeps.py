"""Sweeps: variants by the grid.

    sweep rates {
      patch.stage.train.lr = [1e-5, 3e-5]
      patch.policy.width   = [32, 64]
    }

is the variants `rates.1` to `rates.4`; the last line turns fastest. They are variants in every way: `rlc check` checks
each of them, and one is run with `--variant rates.3`.
"""

from __future__ import annotations

import itertools
import math

from rlspec.dsl import tree
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.printer import text_of

MOST_POINTS = 256


def points(sweep: tree.Item, report: list[Diagnostic]) -> dict[str, tree.Item]:
    """The variants of a sweep by name, in their order; none after reporting what is wrong with it."""
    axes: list[tuple[tree.Item, tuple[tree.Expression, ...]]] = []
    found = len(report)
    for item in sweep.body or ():
        if item.head.path[0].value != "patch":
            hint = "write `patch.stage.train.lr = [1e-5, 3e-5]`"
            report.append(Diagnostic("RLC0102", "a sweep holds patches", item.head.span, label=hint))
        elif not isinstance(item.value, tree.ListOf) or not item.value.items:
            span = item.value.span if item.value is not None else item.head.span
            report.append(Diagnostic("RLC0201", "a sweep's patch lists its values", span, label="write `[a, b]`"))
        else:
            axes.append((item, item.value.items))
    count = math.prod(len(values) for _, values in axes)
    if not axes and len(report) == found:
        report.append(Diagnostic("RLC0502", "the sweep varies nothing", sweep.head.span))
    if count > MOST_POINTS:
        words = f"the sweep has {count} points, more than {MOST_POINTS}"
        report.append(Diagnostic("RLC0401", words, sweep.head.span))
    if len(report) > found:
        return {}
    label = sweep.head.labels[0]
    out = {}
    for number, values in enumerate(itertools.product(*(values for _, values in axes)), start=1):
        name = f"{label.value}.{number}"
        patches = [replace(item, value=value) for (item, _), value in zip(axes, values, strict=True)]
        said = ", ".join(f"{text_of(p.head).removeprefix('patch.')} = {text_of(p.value)}" for p in patches if p.value)
        note_head = replace(sweep.head, path=(tree.Name("note", sweep.head.span),), labels=())
        note = tree.Item(note_head, tree.Text(said, sweep.head.span), None, sweep.head.span)
        head = replace(sweep.head, labels=(tree.Name(name, label.span),))
        out[name] = replace(sweep, head=head, body=(*patches, note))
    return out
