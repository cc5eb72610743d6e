"""Composition: one experiment out of a spec, a variant of it, and overlays.

A variant or overlay holds patches, removals, a note, and new declarations:

    variant small {
      patch.policy.agent.width = 32
      patch.user.customer : agenda { changes_mind = 0% }
      patch.advantage.A : real@turn = zscore(verdict over (traj, turn))
      remove = [stage.coldstart]
      note = "why it is tried"
    }

Patches change the tree before anything is resolved, so everything downstream, diagnostics included, sees an ordinary
experiment whose parts know where they were written. Precedence: schema default < spec < variant < overlay < `--set`.

An overlay stands in a file of its own. Its spans are moved behind the end of the spec's text, so that one number tells
both the file and the place; `Composition.placed` gives them back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlspec.compiler.patches import Body, Patcher
from rlspec.compiler.sweeps import points
from rlspec.dsl import parser, tree
from rlspec.dsl.diagnostics import Diagnostic, Source, near_name

BLOCKS = ("variant", "sweep", "claims", "test")


@dataclass(frozen=True, slots=True)
class Layer:
    """The experiment's items after one layer: "spec", "variant x" or "overlay y"."""

    name: str
    body: Body


@dataclass(slots=True)
class Composition:
    """What a file says, taken apart and put together. `file` holds the composed experiment without its variants,
    claims and tests; `layers` are the states of its body, the spec's first."""

    file: tree.File
    source: Source
    variants: dict[str, tree.Item] = field(default_factory=dict)
    claims: list[tree.Item] = field(default_factory=list)
    tests: list[tree.Item] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    sources: list[tuple[int, Source]] = field(default_factory=list)

    def place(self, span: tree.Span) -> tuple[Source, tree.Span]:
        """The file of a span, and the span in that file."""
        for base, source in reversed(self.sources):
            if span.start >= base:
                return source, tree.Span(span.start - base, span.stop - base)
        return self.source, span

    def placed(self, diagnostic: Diagnostic) -> Diagnostic:
        """A diagnostic with the file that it is about, when that is an overlay's."""
        if diagnostic.span is None or diagnostic.source is not None:
            return diagnostic
        source, span = self.place(diagnostic.span)
        if source is self.source:
            return diagnostic
        return dataclasses.replace(diagnostic, span=span, source=source)


def compose(
    file: tree.File,
    source: Source,
    report: list[Diagnostic],
    variant: str | None = None,
    overlays: Sequence[Source] = (),
) -> Composition:
    """Take the experiment apart, then apply the variant of that name and the overlays, in this order.

    Reports RLC0101 for an unknown variant, RLC0111 for patches and removals of what does not exist.
    """
    out = Composition(file, source)
    found = [i for i in file.items if i.head.path[0].value == "experiment" and i.body is not None]
    extra = _overlays(overlays, out, report)
    if not found:
        return out
    experiment, plain = found[0], []
    for item in experiment.body or ():
        kind = item.head.path[0].value
        if kind not in BLOCKS:
            plain.append(item)
        elif item.body is None:
            report.append(Diagnostic("RLC0207", f"`{kind}` takes a block: `{{ ... }}`", item.head.span))
        elif kind == "claims":
            out.claims.append(item)
        elif kind == "test":
            out.tests.append(item)
        elif len(item.head.labels) != 1:
            report.append(Diagnostic("RLC0108", f"a {kind} needs one name", item.head.span))
        else:
            name = item.head.labels[0].value
            new = points(item, report) if kind == "sweep" else {name: item}
            if new.keys() & out.variants.keys():
                report.append(Diagnostic("RLC0105", f"{kind} `{name}` is declared twice", item.head.span))
            out.variants |= {n: i for n, i in new.items() if n not in out.variants}
    out.layers.append(Layer("spec", tuple(plain)))
    if variant is not None and variant not in out.variants:
        near = near_name(variant, out.variants)
        known = f"its variants: {', '.join(out.variants) or 'none'}"
        cure = f"did you mean `{near}`?" if near else known
        report.append(Diagnostic("RLC0101", f"there is no variant `{variant}`", notes=(cure,)))
    elif variant is not None:
        extra.insert(0, (f"variant {variant}", out.variants[variant]))
    for name, layer in extra:
        body = Patcher(name, out.layers[-1].body, report).applied(layer)
        out.layers.append(Layer(name, body))
    composed = dataclasses.replace(experiment, body=out.layers[-1].body)
    out.file = dataclasses.replace(file, items=tuple(composed if i is experiment else i for i in file.items))
    return out


def _overlays(overlays: Sequence[Source], out: Composition, report: list[Diagnostic]) -> list[tuple[str, tree.Item]]:
    found = []
    base = len(out.source.text) + 1
    for source in overlays:
        file, problems = parser.parse(source)
        report += problems
        here = [i for i in file.items if i.head.path[0].value == "overlay" and i.body is not None and i.head.labels]
        strange = [i for i in file.items if i not in here and i.head.path[0].value != "rlspec"]
        for item in strange:
            label = "write `overlay name { patch... }`"
            words = "an overlay's file holds `rlspec = 1` and overlays"
            report.append(Diagnostic("RLC0102", words, item.head.span, label=label, source=source))
        if not here and not problems and not strange:
            report.append(Diagnostic("RLC0110", "the file has no overlay", tree.Span(0, 0), source=source))
        out.sources.append((base, source))
        found += [(f"overlay {i.head.labels[0].value}", shifted(i, base)) for i in here]
        base += len(source.text) + 1
    return found


def shifted(node: Any, by: int) -> Any:
    """A tree with all its spans moved by so many characters."""
    if isinstance(node, tree.Span):
        return tree.Span(node.start + by, node.stop + by)
    if isinstance(node, tuple):
        return tuple(shifted(part, by) for part in node)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        changes = {f.name: shifted(getattr(node, f.name), by) for f in dataclasses.fields(node)}
        return dataclasses.replace(node, **changes)
    return node
