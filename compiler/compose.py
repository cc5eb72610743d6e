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
experiment whose parts know where they were written. Precedence: schema default < base < spec < variant < overlay <
command line (`--patch`, then `--set`).

Overlays, bases and files of definitions stand in files of their own. Their spans are moved behind the end of the spec's
text, so that one number tells both the file and the place; `Composition.placed` gives them back.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.compiler.inherit import Ancestor, lineage, with_inherited
from rlspec.compiler.uses import Uses, named, shifted, uses_of
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name

if TYPE_CHECKING:
    from rlspec.compiler.patches import Body
    from rlspec.compiler.plugins import PluginSchema

BLOCKS = ("variant", "sweep", "claims", "test")
PATCH = "--patch "


@dataclass(frozen=True, slots=True)
class Layer:
    """The experiment's items after one layer: "base x", "spec", "variant x", "overlay y", "command line", "extends"."""

    name: str
    body: Body


@dataclass(slots=True)
class Composition:
    """What a file says, taken apart and put together. `file` holds the composed experiment without its variants,
    claims and tests; `layers` are the states of its body, the oldest base's first. `variants` are also those of bases
    (`inherited`), `definitions` those that are used from other files, by dotted name, `plugins` by their own names;
    `sources` are all files that were read, with the beginning of their spans; `broken` tells that a base is missing."""

    file: tree.File
    source: Source
    variants: dict[str, tree.Item] = field(default_factory=dict)
    claims: list[tree.Item] = field(default_factory=list)
    tests: list[tree.Item] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    sources: list[tuple[int, Source]] = field(default_factory=list)
    inherited: set[str] = field(default_factory=set)
    broken: bool = False
    definitions: dict[str, tree.Item] = field(default_factory=dict)
    plugins: dict[str, PluginSchema] = field(default_factory=dict)

    @property
    def patches(self) -> list[str]:
        """What was patched on the command line, as it was written."""
        return [s.path.removeprefix(PATCH) for _, s in self.sources if s.path.startswith(PATCH)]

    def take(self, source: Source) -> int:
        """Give another file's spans a stretch of numbers of their own: where it begins."""
        last = self.sources[-1] if self.sources else (0, self.source)
        base = last[0] + len(last[1].text) + 1
        self.sources.append((base, source))
        return base

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
        return replace(diagnostic, span=span, source=source)


def compose(
    file: tree.File,
    source: Source,
    report: list[Diagnostic],
    variant: str | None = None,
    overlays: Sequence[Source] = (),
) -> Composition:
    """Take the experiment apart and put it together: what it extends, the oldest first, then itself, the variant of
    that name, and the overlays in their order.

    Reports RLC0101 for an unknown variant, RLC0111 for patches and removals of what does not exist, and what is wrong
    with files that are extended or used.
    """
    out = Composition(file, source)
    line = lineage(file, source, out.take, report)
    uses = _used(line, file, source, out, report)
    extra = _overlays(overlays, out, report)
    if not line:
        return out
    if line[0].item.head.extends is not None:  # reported; without its base nothing of it can be judged
        out.broken = True
        _taken_apart(line[-1].item, out, report, True)
        return out
    body: Body = ()
    removed: set[tuple[str, str]] = set()
    for ancestor in line:
        item = replace(ancestor.item, body=named(ancestor.item.body or (), uses.plugins))
        own = ancestor is line[-1]
        plain = _taken_apart(item, out, report if own else [], own)
        if ancestor is line[0]:
            body = plain
        else:
            from rlspec.compiler.patches import Patcher

            body = Patcher(ancestor.name, body, report, removed).inherited(replace(item, body=plain))
        out.layers.append(Layer(ancestor.name, body))
    if variant is not None and variant not in out.variants:
        near = near_name(variant, out.variants)
        known = f"its variants: {', '.join(out.variants) or 'none'}"
        cure = f"did you mean `{near}`?" if near else known
        report.append(Diagnostic("RLC0101", f"there is no variant `{variant}`", notes=(cure,)))
    elif variant is not None:
        extra.insert(0, (f"variant {variant}", out.variants[variant]))
    for name, layer in extra:
        from rlspec.compiler.patches import Patcher  # most specs are checked without changes too

        patched = replace(layer, body=named(layer.body or (), uses.plugins))
        body = Patcher(name, out.layers[-1].body, report, removed).applied(patched)
        out.layers.append(Layer(name, body))
    whole = with_inherited(out.layers[-1].body, report)
    if whole is not out.layers[-1].body:
        out.layers.append(Layer("extends", whole))
    young = line[-1].item
    composed = replace(young, body=whole)
    if isinstance(young.head.extends, tree.Name):  # the others of its line are not experiments of their own any more
        older = [a.item for a in line[:-1]]
        file = replace(file, items=tuple(i for i in file.items if not any(i is o for o in older)))
    mine = tuple(composed if i is young else i for i in file.items if i.head.path[0].value != "use")
    theirs = tuple(i for a in line[:-1] for i in a.definitions)
    out.file = replace(file, items=(*theirs, *mine))
    return out


def _taken_apart(experiment: tree.Item, out: Composition, report: list[Diagnostic], own: bool) -> Body:
    """The plain items of an experiment; its variants, and if it is the file's own its claims and tests, go to `out`."""
    plain: list[tree.Item] = []
    for item in experiment.body or ():
        kind = item.head.path[0].value
        if kind not in BLOCKS:
            plain.append(item)
        elif item.body is None:
            report.append(Diagnostic("RLC0207", f"`{kind}` takes a block: `{{ ... }}`", item.head.span))
        elif kind == "claims":
            out.claims += [item] if own else []
        elif kind == "test":
            out.tests += [item] if own else []
        elif len(item.head.labels) != 1:
            report.append(Diagnostic("RLC0108", f"a {kind} needs one name", item.head.span))
        else:
            name = item.head.labels[0].value
            new = {name: item}
            if kind == "sweep":
                from rlspec.compiler.sweeps import points

                new = points(item, report)
            if own and new.keys() & (out.variants.keys() - out.inherited):
                report.append(Diagnostic("RLC0105", f"{kind} `{name}` is declared twice", item.head.span))
                new = {n: i for n, i in new.items() if n not in out.variants}
            out.variants |= new
            out.inherited = (out.inherited - new.keys()) if own else (out.inherited | new.keys())
    return tuple(plain)


def _used(
    line: Sequence[Ancestor], file: tree.File, source: Source, out: Composition, report: list[Diagnostic]
) -> Uses:
    """What the files of a line use together; one alias means one thing in all of them."""
    found = Uses()
    for items, place in [(a.items, a.source) for a in line if a.items] or [(file.items, source)]:
        new = uses_of(items, place, out.take, report)
        for alias in sorted(found.aliases & new.aliases):
            if alias not in new.plugins or found.plugins.get(alias) != new.plugins[alias]:
                span = next(i.head.span for i in items if i.head.labels and i.head.labels[0].value == alias)
                words = f"`{alias}` is something else in what this extends"
                report.append(Diagnostic("RLC0105", words, span, label="choose another name", source=place))
        found.definitions |= new.definitions
        found.plugins |= new.plugins
    out.definitions, out.plugins = found.definitions, {p.name: p for p in found.plugins.values()}
    return found


def on_command_line(patch: str) -> Source:
    """`stage.train.lr = 1e-5`, as `--patch` takes it, as the source of an overlay. Another component or a formula of
    one environment can be written too: `user.customer : recorded { }`, `reward.R on math = 0`.

    Raises:
        SpecError: it does not parse, or is more than one patch.
    """
    text = patch.strip().removeprefix("patch.")
    source = Source(f"{PATCH}{text}", f"overlay patch {{ patch.{text} }}")
    file, report = parser.parse(source)
    if report or len(file.items) != 1 or len(file.items[0].body or ()) != 1:
        cure = "write e.g. --patch 'stage.train.lr = 1e-5'"
        raise SpecError([Diagnostic("RLC0201", f"--patch {patch!r}: this is no `path = value`", notes=(cure,))])
    return source


def _overlays(overlays: Sequence[Source], out: Composition, report: list[Diagnostic]) -> list[tuple[str, tree.Item]]:
    found = []
    for source in overlays:
        file, problems = parser.parse(source)
        report += problems
        base = out.take(source)
        here = [i for i in file.items if i.head.path[0].value == "overlay" and i.body is not None and i.head.labels]
        strange = [i for i in file.items if i not in here and i.head.path[0].value != "rlspec"]
        for item in strange:
            label = "write `overlay name { patch... }`"
            words = "an overlay's file holds `rlspec = 1` and overlays"
            report.append(Diagnostic("RLC0102", words, item.head.span, label=label, source=source))
        if not here and not problems and not strange:
            report.append(Diagnostic("RLC0110", "the file has no overlay", tree.Span(0, 0), source=source))
        said = source.path.startswith(PATCH)
        found += [("command line" if said else f"overlay {i.head.labels[0].value}", shifted(i, base)) for i in here]
    return found
