"""Older editions of the language, brought to the present one.

Edition 0 is that of the first sketches (`rlspec = 0`). What it spelt otherwise is rewritten, one change after another,
each on the text so that everything else stays as it is; the edition's own line comes last. A rewrite that would lose a
comment or make a file that does not parse is not made. What has no counterpart is left for people, and the checker says
what that is.

Editions are never dropped from here: a spec of any edition can be brought forward by every later rlspec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rlspec.compiler.elaborate import dotted
from rlspec.dsl import parser, tree
from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.diagnostics import Diagnostic, Fix, Source, SpecError
from rlspec.dsl.fixes import applied
from rlspec.dsl.format import formatted
from rlspec.dsl.printer import text_of

PRESENT = 1
MOST_REWRITES = 1000
POOL = "(group, traj, turn, token)"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change: what it is about, where, and the edits of the text."""

    about: str
    span: tree.Span
    edits: tuple[Fix, ...]


@dataclass(slots=True)
class Forward:
    """A file in the present edition. `done` are the rewrites with their lines, `kept` those that would have lost a
    comment."""

    text: str
    done: list[tuple[int, str]] = field(default_factory=list)
    kept: list[tuple[int, str]] = field(default_factory=list)


def edition_of(file: tree.File) -> tree.Item | None:
    """The line that says a file's edition, if its value is a whole number."""
    for item in file.items:
        if item.head.path[0].value == "rlspec" and isinstance(item.value, tree.Number) and item.value.integral:
            return item
    return None


def brought_forward(source: Source) -> Forward:
    """A file of any edition in the present one; a file of the present edition as it is.

    Raises:
        SpecError: it has syntax errors, or RLC0009: it says no edition, or one that is not known here.
    """
    file, problems = parser.parse(source)
    if problems:
        raise SpecError(problems)
    line = edition_of(file)
    number = int(line.value.value) if line is not None and isinstance(line.value, tree.Number) else None
    if number is None or not 0 <= number <= PRESENT:
        said = "says no edition" if number is None else f"is of edition {number}, which this rlspec does not know"
        span = line.span if line is not None else tree.Span(0, 0)
        raise SpecError([Diagnostic("RLC0009", f"the file {said}", span, label="write `rlspec = 1`", source=source)])
    out = Forward(source.text)
    if number == PRESENT:
        return out
    tidy = formatted(source) == source.text
    skipped: set[tuple[str, str]] = set()
    for _ in range(MOST_REWRITES):
        file = parser.parse(Source(source.path, out.text))[0]
        rewrite = next((r for r in _all(file, out.text) if (r.about, _words(out.text, r.span)) not in skipped), None)
        if rewrite is None:
            break
        at = Source("", out.text).position(rewrite.span.start)[0]
        new = _safely(out.text, rewrite)
        if new is None:
            skipped.add((rewrite.about, _words(out.text, rewrite.span)))
            out.kept.append((at, rewrite.about))
        else:
            out.text = new
            out.done.append((at, rewrite.about))
    line = edition_of(parser.parse(Source(source.path, out.text))[0])
    assert line is not None, "no rewrite takes the edition's line away"
    assert line.value is not None
    out.text = out.text[: line.value.span.start] + str(PRESENT) + out.text[line.value.span.stop :]
    out.done.append((Source("", out.text).position(line.span.start)[0], f"edition {number} -> {PRESENT}"))
    if tidy:
        out.text = formatted(Source(source.path, out.text))
    return out


def _words(text: str, span: tree.Span) -> str:
    return " ".join(text[span.start : span.stop].split())


def _safely(text: str, rewrite: Rewrite) -> str | None:
    """The text after a rewrite, or None when it would not parse or would lose a comment."""
    new, count = applied(text, rewrite.edits)
    before, _ = parser.parse(Source("", text))
    after, problems = parser.parse(Source("", new))
    if problems or count != len(rewrite.edits) or new == text:
        return None
    kept = Counter(c.text for c in before.comments) == Counter(c.text for c in after.comments)
    return new if kept else None


# ------------------------------------------------------------------------------------------------------- edition 0


@dataclass(frozen=True, slots=True)
class _Place:
    """An item with the blocks around it and the file's text."""

    item: tree.Item
    around: tuple[tree.Item, ...]
    text: str

    @property
    def name(self) -> str:
        return ".".join(n.value for n in self.item.head.path)

    def inside(self, kind: str, *components: str) -> bool:
        """Whether it is a field of such a declaration."""
        if not self.around or self.around[-1].head.path[0].value != kind:
            return False
        made = self.around[-1].head.type
        return made is not None and isinstance(made.base, tree.Name) and made.base.value in components

    def rewrite(self, about: str, *edits: tuple[tree.Span, str]) -> Rewrite:
        return Rewrite(about, self.item.span, tuple(Fix(span, text) for span, text in edits))

    def value(self, about: str, *fields: str) -> Rewrite:
        """The whole item as other fields."""
        return self.rewrite(about, (self.item.span, "  ".join(fields)))

    def gone(self, about: str) -> Rewrite:
        """The item taken out, with the blanks behind it on its line."""
        stop = self.item.span.stop
        while stop < len(self.text) and self.text[stop] in " \t":
            stop += 1
        return self.rewrite(about, (tree.Span(self.item.span.start, stop), ""))


Rule = Callable[[_Place], Iterator[Rewrite]]


def _all(file: tree.File, text: str) -> Iterator[Rewrite]:
    def walk(items: tuple[tree.Item, ...], around: tuple[tree.Item, ...]) -> Iterator[_Place]:
        for item in items:
            yield _Place(item, around, text)
            yield from walk(item.body or (), (*around, item))

    for place in walk(file.items, ()):
        for rule in RULES:
            yield from rule(place)


def _call(node: tree.Expression | None, name: str) -> dict[str, tree.Expression] | None:
    """The arguments of `name(...)`: by name, or by place ("0", "1")."""
    if isinstance(node, tree.Call) and dotted(node.function) == name and not any(a.over for a in node.arguments):
        return {a.name.value if a.name else str(n): a.value for n, a in enumerate(node.arguments)}
    return None


def _with_unit(node: tree.Expression, unit: str) -> str:
    """A number with a unit, where it has none."""
    text = text_of(node)
    return f"{text}{unit}" if isinstance(node, tree.Number) and not node.unit else text


def _calls(node: object, name: str) -> Iterator[tree.Call]:
    if isinstance(node, tree.Call) and dotted(node.function) == name:
        yield node
    for part in getattr(node, "__dataclass_fields__", {}):
        inner = getattr(node, part)
        for child in inner if isinstance(inner, tuple) else (inner,):
            if not isinstance(child, tree.Item | tree.Span):
                yield from _calls(child, name)


def _kl(place: _Place) -> Iterator[Rewrite]:
    """`kl = 0.001` is a block with settings of its own now."""
    if place.name == "kl" and place.item.value is not None and place.inside("stage", "grpo", "ppo"):
        yield place.rewrite("kl -> kl.coefficient", (place.item.head.span, "kl.coefficient"))
    if place.name.startswith("patch.") and place.name.endswith(".kl") and place.item.value is not None:
        head = place.text[place.item.head.span.start : place.item.head.span.stop]
        yield place.rewrite("kl -> kl.coefficient", (place.item.head.span, f"{head}.coefficient"))


def _rollouts(place: _Place) -> Iterator[Rewrite]:
    """A calibration always draws from the policy at its start; only how many is said."""
    given = _call(place.item.value, "rollouts")
    if given is None or place.name != "from" or not place.inside("stage", "irc") or "episodes" not in given:
        return
    if given.keys() <= {"policy", "episodes"} and ("policy" not in given or text_of(given["policy"]) == "start"):
        yield place.value("from = rollouts(...) -> episodes", f"episodes = {_with_unit(given['episodes'], 'trajs')}")


def _weighed(place: _Place) -> Iterator[Rewrite]:
    """A calibration names the signal whose choices it weighs and the outcome that it weighs them by."""
    item = place.item
    made = item.head.type
    if item.head.path[0].value != "stage" or not item.head.labels or not item.body or made is None or not place.around:
        return
    if text_of(made.base) != "irc" or any(i.head.path[0].value == "signal" for i in item.body):
        return
    label = item.head.labels[0].value
    body = place.around[-1].body or ()
    signals = {i.head.labels[0].value for i in body if i.head.path[0].value == "signal" and i.head.labels}
    weighed = {text_of(x.key) for i in body for x in _indices(i.value) if text_of(x.target).startswith(f"{label}.")}
    if len(weighed) == 1 and weighed <= signals and "outcome" in signals:
        at = item.body[0].span.start
        words = f"signal = {weighed.pop()}  outcome = outcome  "
        yield place.rewrite("irc names its signal and outcome", (tree.Span(at, at), words))


def _indices(node: object) -> Iterator[tree.Index]:
    if isinstance(node, tree.Index):
        yield node
    for part in getattr(node, "__dataclass_fields__", {}):
        inner = getattr(node, part)
        for child in inner if isinstance(inner, tuple) else (inner,):
            if not isinstance(child, tree.Item | tree.Span):
                yield from _indices(child)


def _tier(place: _Place) -> Iterator[Rewrite]:
    """Tiers are labelled by a judge, which can be patched and replaced."""
    given = _call(place.item.value, "env.tier")
    if given is None or place.item.head.path[0].value != "signal" or not place.around or place.item.value is None:
        return
    body = place.around[-1].body or ()
    taken = {label.value for i in body for label in i.head.labels}
    name = next(n for n in ("tiers", *(f"tiers_{k}" for k in range(2, len(taken) + 3))) if n not in taken)
    fields = "  ".join(f"{key} = {text_of(value)}" for key, value in given.items())
    at = place.item.span.start
    judge = f"judge {name} : tiers {{ {fields} }}\n{_indent(place)}"
    yield place.rewrite(
        "env.tier(...) -> judge : tiers", (tree.Span(at, at), judge), (place.item.value.span, f"{name}.tier")
    )


def _top(place: _Place) -> Iterator[Rewrite]:
    """`top` says its pool; the entropy is a measure of the policy."""
    if place.item.value is None:
        return
    for call in _calls(place.item.value, "top"):
        plain = [a for a in call.arguments if a.name is None and not a.over and a.where is None]
        if len(call.arguments) == 2 and len(plain) == 2:
            words = text_of(plain[0].value)
            words = "policy.entropy" if words == "entropy" else words
            new = f"top({words} over {POOL}, share = {text_of(plain[1].value)})"
            yield place.rewrite("top(x, share) says its pool", (call.span, new))


def _envs(place: _Place) -> Iterator[Rewrite]:
    """Environments come from a stage, which is named alone."""
    value = place.item.value
    if place.name != "from" or not place.inside("env", "codegym") or not isinstance(value, tree.Member):
        return
    if value.name.value == "envs" and isinstance(value.target, tree.Name):
        yield place.rewrite("from = stage.envs -> from = stage", (value.span, value.target.value))


def _author(place: _Place) -> Iterator[Rewrite]:
    """The author of environments and its model are two fields."""
    given = _call(place.item.value, "llm")
    if place.name == "author" and given is not None and list(given) == ["0"] and place.inside("stage", "codegym"):
        yield place.value("author = llm(model) -> author, model", "author = llm", f"model = {text_of(given['0'])}")


def _solved(place: _Place) -> Iterator[Rewrite]:
    """One solution that solves all its configurations is enough, always."""
    given = _call(place.item.value, "solved")
    if place.name != "keep" or given is None or not place.inside("stage", "codegym"):
        return
    if [text_of(v) for v in given.values()] == ["1"]:
        yield place.gone("keep = solved(at_least = 1) is always so")


def _admitted(place: _Place) -> Iterator[Rewrite]:
    """Bounds of an admission are numbers with their units."""
    if not place.around or place.around[-1].head.path[0].value != "admit":
        return
    value, name = place.item.value, place.name
    if (given := _call(value, "within")) is not None and list(given) == ["0", "1"]:
        bounds = ", ".join(_with_unit(v, "calls" if name == "solution_calls" else "") for v in given.values())
        yield place.value("within(a, b) -> [a, b]", f"{name} = [{bounds}]")
    if (given := _call(value, "at_least")) is not None and list(given) == ["0"]:
        yield place.value("at_least(n) -> n", f"{name} = {text_of(given['0'])}")
    if (given := _call(value, "at_most")) is not None and "0" in given and given.keys() <= {"0", "attempts"}:
        fields = [f"{name} = {text_of(given['0'])}"]
        fields += [f"attempts = {_with_unit(given['attempts'], 'trajs')}"] if "attempts" in given else []
        yield place.value("at_most(share, attempts = n) -> share, attempts", *fields)


def _admit(place: _Place) -> Iterator[Rewrite]:
    """What is admitted is said by the stage that makes it."""
    if place.name != "admit" or place.item.body is None or len(place.around) != 1:
        return
    makers = [
        i
        for i in place.around[0].body or ()
        if i.head.path[0].value == "stage" and i.head.type is not None and text_of(i.head.type.base) == "codegym"
    ]
    if len(makers) == 1 and makers[0].body:
        text = place.text[place.item.span.start : place.item.span.stop]
        at = makers[0].body[-1].span.stop
        rest = place.text[at : makers[0].span.stop]
        newline = "\n" if "#" in rest or "\n" in rest else "  "  # a comment ends the line before the block
        at = makers[0].span.stop - 1
        yield place.rewrite(
            "admit { } stands in its stage", (place.item.span, ""), (tree.Span(at, at), f"{newline}{text}\n")
        )


def _buffer(place: _Place) -> Iterator[Rewrite]:
    """The buffer's order and its trigger are two fields."""
    if place.name != "buffer" or not place.inside("stage", "resample"):
        return
    for order in ("lifo", "fifo"):
        given = _call(place.item.value, order)
        if given is not None and list(given) == ["trigger"]:
            trigger = f"trigger = {_with_unit(given['trigger'], 'steps')}"
            yield place.value("buffer = lifo(trigger = n) -> buffer, trigger", f"buffer = {order}", trigger)


def _always(place: _Place) -> Iterator[Rewrite]:
    """No feedback may hold a gold value, and the context is always task, attempt, feedback."""
    if not place.inside("stage", "resample") or place.item.value is None:
        return
    said = text_of(place.item.value)
    if (place.name, said) in (("forbid", "leak(gold_values)"), ("context", "[prompt, failed, feedback]")):
        yield place.gone(f"{place.name} = {said} is always so")


def _when(place: _Place) -> Iterator[Rewrite]:
    """The condition of a failure is a formula, so that it can be tested; the stage names the one that it rides on."""
    given = _call(place.item.value, "trajectory")
    if place.name != "when" or given is None or list(given) != ["0"] or not place.inside("stage", "resample"):
        return
    experiment, stage = place.around[-2:] if len(place.around) > 1 else (None, place.around[-1])
    if experiment is None:
        return
    taken = {label.value for i in experiment.body or () for label in i.head.labels}
    name = next(n for n in ("failed", *(f"failed_{k}" for k in range(2, len(taken) + 3))) if n not in taken)
    trains = [
        i.head.labels[0].value
        for i in experiment.body or ()
        if i.head.path[0].value == "stage" and i.head.labels and i.head.type and text_of(i.head.type.base) == "grpo"
    ]
    fields = [f"within = {trains[0]}"] if len(trains) == 1 else []
    at = stage.span.start
    formula = f"let {name} : bool@traj = {text_of(given['0'])}\n{_indent(_Place(stage, (), place.text))}"
    yield place.rewrite(
        "when = trajectory(condition) -> failed, within",
        (tree.Span(at, at), formula),
        (place.item.span, "  ".join([*fields, f"failed = {name}"])),
    )


def _indent(place: _Place) -> str:
    line = place.text[: place.item.span.start].rpartition("\n")[2]
    return line if not line.strip() else "  "


RULES: tuple[Rule, ...] = (
    _kl, _rollouts, _weighed, _tier, _top, _envs, _author, _solved, _admitted, _admit, _buffer, _always, _when,
)  # fmt: skip
