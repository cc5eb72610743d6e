"""Tests in a spec: `test` blocks score literal trajectories with the plain evaluator.

    test "a major error is charged once" on retail {
      given.outcome = 0
      given.verdict = [1, -1, -1, 0]
      expect once = R == -4.75
    }

Without `on`, the first environment that knows everything given is taken. `variant = name` tests a variant of the spec.
`==` and `!=` between numbers hold to 1e-9. An expectation that does not hold is RLC0802, with the values of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.compiler.binding import time_of
from rlspec.compiler.builder import Value
from rlspec.compiler.elaborate import Failed
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formulas import sources_of
from rlspec.compiler.levels import Level
from rlspec.compiler.patches import labels_and_env
from rlspec.compiler.ranges import Range
from rlspec.compiler.scene import Given, Result, Scene
from rlspec.compiler.types import NUMERIC
from rlspec.dsl import parser, tree
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name
from rlspec.dsl.printer import text_of

TOLERANCE = 1e-9
ITEMS = ("given", "expect", "variant", "note")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A named condition."""

    name: str
    expression: tree.Expression


@dataclass(slots=True)
class Case:
    """One `test` block. `on` and `variant` are None when it does not say."""

    name: str
    item: tree.Item
    on: tree.Name | None
    variant: tree.Name | None = None
    givens: list[Given] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one expectation came out. `failure` is None when it holds."""

    case: str
    expectation: str
    failure: Diagnostic | None


def cases_of(blocks: Sequence[tree.Item], report: list[Diagnostic]) -> list[Case]:
    """Read the `test` blocks of an experiment; malformed parts are reported and left out."""
    cases: list[Case] = []
    for block in blocks:
        labels, on = labels_and_env(block.head)
        if len(labels) != 1:
            report.append(Diagnostic("RLC0108", "a test needs one name", block.head.span))
            continue
        case = Case(labels[0].value, block, on)
        if any(c.name == case.name for c in cases):
            report.append(Diagnostic("RLC0105", f"test `{case.name}` is declared twice", block.head.span))
            continue
        for item in block.body or ():
            try:
                _item(case, item, report)
            except Failed:
                continue
        if not case.expectations:
            hint = "write `expect name = condition`"
            report.append(Diagnostic("RLC0502", f"test `{case.name}` expects nothing", block.head.span, label=hint))
        cases.append(case)
    return cases


def _item(case: Case, item: tree.Item, report: list[Diagnostic]) -> None:
    def fail(code: str, message: str, label: str = "") -> Failed:
        report.append(Diagnostic(code, message, item.head.span, label=label))
        return Failed()

    kind, path = item.head.path[0].value, tuple(n.value for n in item.head.path[1:])
    if kind == "given":
        case.givens += _givens(path, item, report)
    elif kind == "expect":
        if item.value is None or path or len(item.head.labels) != 1:
            raise fail("RLC0207", "an expectation is `expect name = condition`")
        name = item.head.labels[0].value
        if any(e.name == name for e in case.expectations):
            raise fail("RLC0105", f"`{name}` is expected twice")
        case.expectations.append(Expectation(name, item.value))
    elif kind == "variant":
        if not isinstance(item.value, tree.Name):
            raise fail("RLC0207", "write `variant = name`")
        case.variant = item.value
    elif kind != "note":
        near = near_name(kind, ITEMS)
        hint = f"did you mean `{near}`?" if near else f"a test holds {', '.join(ITEMS)}"
        raise fail("RLC0102", f"unknown kind `{kind}` in a test", hint)


def _givens(path: tuple[str, ...], item: tree.Item, report: list[Diagnostic]) -> list[Given]:
    if item.body is not None:
        return [
            given
            for inner in item.body
            for given in _givens((*path, *(n.value for n in inner.head.path)), inner, report)
        ]
    if not 1 <= len(path) <= 3 or item.head.labels or item.value is None:
        hint = "e.g. `given.outcome = 1` or `given.env.verified = 1`"
        report.append(Diagnostic("RLC0207", "what is given has a name and a value", item.head.span, label=hint))
        return []
    return [Given(path, item.value, item.head.span)]


def source_of(experiment: Experiment, case: Case, report: list[Diagnostic]) -> tuple[Declared, Declared | None]:
    """The environment that a test is about, and the stage that samples again, if it is about that.

    Raises:
        Failed: after reporting.
    """
    sources = sources_of(experiment)
    chosen = [s for s in sources if s[1] is None]
    if case.on is not None:
        name = case.on.value
        chosen = [(env, stage) for env, stage in sources if name == (stage.label if stage else env.label)]
        if not chosen:
            known = list(dict.fromkeys(stage.label if stage else env.label for env, stage in sources))
            near = near_name(name, known)
            hint = f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
            report.append(Diagnostic("RLC0101", f"there is no env `{name}`", case.on.span, label=hint))
            raise Failed()
    for env, stage in chosen if len(chosen) > 1 else ():
        try:
            Scene(experiment, env, case.givens, [], stage)
        except Failed:
            continue
        return env, stage
    return chosen[0]


def run_case(experiment: Experiment, case: Case, report: list[Diagnostic]) -> list[Verdict]:
    """Score a test. Mistakes in it are reported; its failures are in the verdicts. The experiment has no errors."""
    try:
        env, stage = source_of(experiment, case, report)
        scene = Scene(experiment, env, case.givens, report, stage)
    except Failed:
        return []
    verdicts = []
    for expectation in case.expectations:
        try:
            verdicts.append(Verdict(case.name, expectation.name, _judged(scene, case, expectation)))
        except Failed:
            continue
    return verdicts


def _judged(scene: Scene, case: Case, expectation: Expectation) -> Diagnostic | None:
    node = expectation.expression
    prepared = scene.prepared(node)
    scene.formulas.elaborator.boolean(prepared, scene.scope())
    condition = scene.value(_tolerant(prepared, scene))
    known(scene, [condition], node)
    (result,) = scene.results([("", condition)])
    if all(result.numbers):
        return None
    notes = [f"{r.text} = {r.shown}" for r in _parts(scene, node, prepared)]
    if len(result.numbers) > 1:
        notes.insert(0, f"it holds for {result.shown}")
    stage = scene.formulas.stage
    notes.append(f"in test {case.name!r}, on {stage.label if stage else scene.formulas.env.label}")
    return Diagnostic("RLC0802", f"`{expectation.name}` does not hold", node.span, notes=tuple(notes))


def known(scene: Scene, values: Sequence[Value], node: tree.Expression) -> None:
    """Every input of the values is given.

    Raises:
        Failed: after reporting RLC0203.
    """
    missing = scene.needs(values)
    if missing:
        words = ", ".join(f"`{name}`" for name in missing)
        hint = f"add `given.{missing[0]} = ...`"
        raise scene.fail("RLC0203", f"`{text_of(node)}` needs {words}, which is not given", node.span, hint)


def _tolerant(node: tree.Expression, scene: Scene) -> tree.Expression:
    """Equality of numbers up to rounding, wherever the condition is made of `and`, `or` and `not`."""
    match node:
        case tree.Binary(op="and" | "or", left=left, right=right):
            return replace(node, left=_tolerant(left, scene), right=_tolerant(right, scene))
        case tree.Unary(op="not", operand=operand):
            return replace(node, operand=_tolerant(operand, scene))
        case tree.Binary(op="==" | "!=" as op, left=left, right=right, span=span):
            quiet = len(scene.report)
            try:
                numeric = scene.value(left).base in NUMERIC and scene.value(right).base in NUMERIC
            except Failed:  # a choice, which has a meaning only beside its other side
                numeric = False
            del scene.report[quiet:]
            if not numeric:
                return node
            one, tolerance = (tree.Number(x, "", False, repr(x), span) for x in (1.0, TOLERANCE))
            away = _call("abs", tree.Binary("-", left, right, span))
            scale = tree.Binary("*", tolerance, _call("max", one, _call("abs", right)), span)
            near = tree.Binary("<=", away, scale, span)
            same = tree.Binary("or", near, tree.Binary("==", left, right, span), span)  # infinities
            return same if op == "==" else tree.Unary("not", same, span)
        case _:
            return node


def _call(name: str, *arguments: tree.Expression) -> tree.Expression:
    span = arguments[0].span
    listed = tuple(tree.Argument(a, None, (), None, None, span) for a in arguments)
    return tree.Call(tree.Name(name, span), listed, span)


def _parts(scene: Scene, node: tree.Expression, prepared: tree.Expression) -> list[Result]:
    """The values of an expression's parts, from the outside in, and of the terms of the formulas that it names."""
    found: list[tuple[str, Value]] = []

    def add(part: tree.Expression, ready: tree.Expression, indent: str) -> None:
        text = text_of(part)
        if isinstance(part, tree.Number | tree.Text | tree.Boolean | tree.ListOf | tree.SetOf):
            return
        if isinstance(part, tree.Unary) and isinstance(part.operand, tree.Number):
            return
        if any(text == t.strip() for t, _ in found):
            return
        quiet = len(scene.report)
        try:
            found.append((indent + text, scene.value(ready)))
        except Failed:
            del scene.report[quiet:]
            return
        if isinstance(part, tree.Name):
            formula = next((f for f in scene.formulas.formulas if f.name == text and f.kind != "signal"), None)
            given = any(g.words == (text,) for g in scene.givens)
            if formula is not None and not given:
                terms = scene.formulas.elaborator.term_texts(formula.expression)
                for sign, term in terms if len(terms) > 1 else ():
                    signed = tree.Unary("-", term, term.span) if sign == "-" else term
                    add(signed, signed, indent + "  ")
                if len(terms) == 1:
                    inside(formula.expression, formula.expression, indent + "  ")

    def inside(part: tree.Expression, ready: tree.Expression, indent: str) -> None:
        match part, ready:
            case tree.Binary(), tree.Binary():
                for side in ("left", "right"):
                    add(getattr(part, side), getattr(ready, side), indent)
                    inside(getattr(part, side), getattr(ready, side), indent)
            case tree.Unary(), tree.Unary():
                add(part.operand, ready.operand, indent)
                inside(part.operand, ready.operand, indent)
            case tree.Call(), tree.Call():
                for argument, other in zip(part.arguments, ready.arguments, strict=True):
                    add(argument.value, other.value, indent)
                    inside(argument.value, other.value, indent)

    inside(node, prepared, "")
    return scene.results(found)


def evaluated(experiment: Experiment, text: str, givens: Sequence[str], env: str | None) -> str:
    """`type` or `type = value` of an expression, as `rlc eval` prints it; `givens` are `name=value` texts.

    Raises:
        SpecError: what is wrong with them.
    """
    source = Source("expression", text)
    node, report = parser.parse_expression(source)
    if node is None:
        raise SpecError(report)
    case = Case("eval", experiment.item, tree.Name(env, tree.Span(0, 0)) if env is not None else None)
    for given in givens:
        name, _, written = given.partition("=")
        words = tuple(w.strip() for w in name.split("."))
        where = Source(f"--given {given}", written)
        parsed, problems = parser.parse_expression(where)
        if parsed is None or not all(w.isidentifier() for w in words) or len(words) > 3:
            message = f"--given takes name=value, not {given!r}"
            raise SpecError(problems or [Diagnostic("RLC0201", message)])
        case.givens.append(Given(words, parsed, parsed.span))
    try:
        chosen, stage = source_of(experiment, case, report)
        scene = Scene(experiment, chosen, case.givens, report, stage)
    except Failed:  # their places are in the options' own texts
        raise SpecError([replace(d, span=None, message=f"--given: {d.message}") for d in _errors(report)]) from None
    try:
        value = scene.value(scene.prepared(node))
        described = _described(value) + _known(scene, value)
        missing = scene.needs([value])
        varies = scene.formulas.elaborator.builder.level(value.step) > Level.CONST
        if not case.givens and (varies or missing):
            return described + (f"\ngive {', '.join(missing)} for its value" if missing else "")
        known(scene, [value], node)
        (result,) = scene.results([(text, value)])
    except Failed:
        raise SpecError([replace(d, source=source) for d in _errors(report)]) from None
    return f"{described}\n= {result.shown}"


def _known(scene: Scene, value: Value) -> str:
    """When a value is known, where that is not plainly with the samples."""
    if value.level is Level.CONST and scene.formulas.elaborator.builder.constant(value.step) is not None:
        return ""
    when = str(time_of(scene.formulas.elaborator.builder.program({"it": value.step}), "it"))
    return "" if when == "per sample" else f", known {when}"


def _errors(report: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [d for d in report if d.severity == "error"]


def _described(value: Value) -> str:
    """`real@traj in [-5, 11]`, as far as it is known."""
    level = f"@{value.level.label}" if value.level > Level.CONST else ""
    base = "{" + ", ".join(value.choices) + "}" if value.choices else value.base
    bounded = value.base in NUMERIC and value.range != Range() and value.level > Level.CONST
    return f"{base}{level}" + (f" in {value.range}" if bounded else "")
