"""What the page of a spec says, as plain data: who is trained on what with whom, the formulas with what they can reach,
where every number comes from, and what the variants, claims and tests add.

    page = sheet(read("specs/papers/tarl.rlspec"))
    page.formulas[0].reach       # ("real@traj in [-5, 11]", "retail")
    page.constants               # the reproduction sheet
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from rlspec.compiler.builder import Value
from rlspec.compiler.check import Checked, check, run_tests
from rlspec.compiler.diff import Difference, difference
from rlspec.compiler.digests import Side
from rlspec.compiler.elaborate import describe, dotted
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formulas import EnvFormulas, sources_of
from rlspec.compiler.library import over_standard, remarks
from rlspec.compiler.plan import Plan
from rlspec.compiler.showing.constants import SOURCES, Constant, constants_of, is_number, leaves, source_of, with_unit
from rlspec.compiler.showing.words import value_text
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError
from rlspec.dsl.printer import text_of

KINDS = ("policy", "engine", "env", "user", "judge", "resources")


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a component: its value with its unit, and where that comes from (`default` when not written)."""

    path: str
    value: str
    source: str
    note: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A component: what it is in the catalog's words, what it is connected to, its written fields and its defaults."""

    kind: str
    label: str
    component: str
    about: str
    wiring: tuple[str, ...]
    written: tuple[Setting, ...]
    defaults: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class FormulaEntry:
    """A formula; `reach` lists (type, level and range; where), one entry for all environments that agree."""

    kind: str
    name: str
    on: str
    expression: tree.Expression
    declared: str
    reach: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """A `def` that a formula uses, opened. `remark` is the comment above it."""

    name: str
    head: str
    expression: tree.Expression
    remark: str


@dataclass(frozen=True, slots=True)
class ClaimEntry:
    name: str
    value: str
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class AssertionEntry:
    """`holds` is None for what could not be computed."""

    name: str
    text: str
    holds: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class VariantEntry:
    """What a variant changes; `problem` instead when it has errors."""

    name: str
    note: str
    difference: Difference | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TestEntry:
    """One expectation of a test; `notes` say why it does not hold."""

    case: str
    name: str
    text: str
    holds: bool
    notes: tuple[str, ...]


@dataclass(slots=True)
class Sheet:
    """See the module."""

    name: str
    title: str
    note: str
    variant: str
    seed: int
    cites: tuple[str, ...]
    digest: str
    plan: Plan
    parts: tuple[Part, ...]
    shares: tuple[tuple[str, str], ...]
    formulas: tuple[FormulaEntry, ...]
    definitions: tuple[Definition, ...]
    credit: str
    stages: tuple[Part, ...]
    constants: tuple[Constant, ...]
    claims: tuple[ClaimEntry, ...]
    assertions: tuple[AssertionEntry, ...]
    variants: tuple[VariantEntry, ...]
    tests: tuple[TestEntry, ...]
    remarks: tuple[Diagnostic, ...]
    counts: dict[str, int] = field(default_factory=dict)


def sheet(
    source: Source,
    settings: Mapping[str, tree.Expression] | None = None,
    variant: str | None = None,
    overlays: Sequence[Source] = (),
) -> Sheet:
    """Everything that the page of a spec, or of one of its variants, says.

    Raises:
        SpecError: its errors.
    """
    found = check(source, settings, None, variant, overlays)
    if found.plan is None or found.experiment is None:
        raise SpecError(d if d.source is not None else replace(d, source=source) for d in found.errors)
    experiment, plan = found.experiment, found.plan
    base = Side(source.path, plan, source, experiment, variant)
    varied = {} if variant else {n: check(source, settings, None, n, overlays) for n in found.composition.variants}
    constants = tuple(constants_of(experiment))
    drawn = [s for s in plan.sources if s.stage is None]
    return Sheet(
        name=experiment.name,
        title=experiment.title or experiment.name,
        note=experiment.note,
        variant=variant or "",
        seed=plan.seed,
        cites=tuple(_cite(c) for c in experiment.cites),
        digest=base.digests.value,
        plan=plan,
        parts=tuple(_part(d, experiment) for kind in KINDS for d in experiment.of(kind).values()),
        shares=tuple((s.env, f"{s.share:.4g}") for s in drawn if len(drawn) > 1),
        formulas=tuple(_formulas(experiment)),
        definitions=tuple(_definitions(experiment)),
        credit=_credit(experiment),
        stages=tuple(_part(d, experiment) for d in experiment.of("stage").values()),
        constants=constants,
        claims=tuple(
            ClaimEntry(c.name, str(c.amount), source_of(c.origin.kind), c.origin.note)
            for c in found.claims.numbers.values()
        ),
        assertions=tuple(_assertions(found)),
        variants=tuple(_variant(name, found, side, base) for name, side in varied.items()),
        tests=tuple(_tests(found, varied)) if variant is None else (),
        remarks=tuple(d for d in found.diagnostics if d.severity != "error"),
        counts={kind: sum(c.source == kind for c in constants) for kind in SOURCES},
    )


# ------------------------------------------------------------------------------------------------------ components


def _cite(value: Any) -> str:
    """`paper("arXiv:2509.14480")` as `arXiv:2509.14480`."""
    if isinstance(value, dict) and len(value) == 1:
        return ", ".join(str(a) for a in next(iter(value.values())))
    return str(value)


def _part(declared: Declared, experiment: Experiment) -> Part:
    written, defaults = [], []
    for path, value, about, unit in leaves(declared.schema, declared.made):
        origin = declared.origins.get(path)
        shown = with_unit(value, unit)
        if origin is None:
            defaults.append(Setting(path, shown, "default", "", about))
        else:
            source = source_of(origin.kind) if is_number(value) else origin.kind.replace("written", "")
            written.append(Setting(path, shown, source, origin.note, about))
    wiring = tuple(f"{name} {value_text(value)}" for name, value in declared.wiring.items())
    about = (declared.schema.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    label = declared.label
    return Part(declared.kind, label, declared.name, " ".join(about.split()), wiring, tuple(written), tuple(defaults))


# -------------------------------------------------------------------------------------------------------- formulas


def _formulas(experiment: Experiment) -> Iterator[FormulaEntry]:
    """All formulas in the order of the file, with what each can reach on the sources (environments, and stages that
    sample again) that use it."""
    known: dict[str, dict[str, str]] = {}
    scopes: dict[str, tuple[str | None, ...]] = {}
    for env, stage in sources_of(experiment):
        scratch = EnvFormulas(experiment, env, [], stage)
        scratch.build()
        name = env.label if stage is None else stage.label
        known[name] = {**known.get(name, {}), **{n: _reachable(value) for n, value in scratch.values.items()}}
        scopes[name] = (name, env.label, None)
    for formula in experiment.formulas:
        found: dict[str, list[str]] = {}
        declared = {f.on for f in experiment.formulas if f.name == formula.name}
        for place, values in known.items():
            nearest = next((scope for scope in scopes[place] if scope in declared), None)
            if formula.name in values and nearest == formula.on:
                found.setdefault(values[formula.name], []).append(place)
        reach = tuple((text, ", ".join(places) if len(found) > 1 else "") for text, places in found.items())
        written = text_of(formula.item.head.type) if formula.item.head.type is not None else ""
        yield FormulaEntry(formula.kind, formula.name, formula.on or "", formula.expression, written, reach)


def _reachable(value: Value) -> str:
    """A type as it is derived; an unbounded range says nothing."""
    if value.choices:
        return "{" + ", ".join(value.choices) + f"}}@{value.level.label}"
    return describe(value).removesuffix(" in [-inf, inf]")


def _credit(experiment: Experiment) -> str:
    for item in experiment.item.body or ():
        if item.head.path[0].value == "credit" and item.value is not None:
            return text_of(item.value)
    return ""


def _definitions(experiment: Experiment) -> Iterator[Definition]:
    """The definitions that formulas use, and those that these use, each once."""
    known = over_standard(experiment.definitions)
    waiting: list[tuple[str, tree.Expression]] = [("", f.expression) for f in experiment.formulas]
    seen: set[str] = set()
    for prefix, expression in waiting:  # grows as definitions are opened
        for name in _called(expression):
            full = name if name in known else f"{prefix}{name}"
            if full not in known or full in seen:
                continue
            seen.add(full)
            item = known[full]
            assert item.value is not None
            parameters = ", ".join(text_of(p) for p in item.head.parameters or ())
            result = f" : {text_of(item.head.type)}" if item.head.type is not None else ""
            yield Definition(full, f"{full}({parameters}){result}", item.value, remarks().get(full, ""))
            outer, dot, _ = full.rpartition(".")
            waiting.append((f"{outer}{dot}", item.value))


def _called(node: Any) -> Iterator[str]:
    for part in _walk(node):
        if isinstance(part, tree.Call) and (name := dotted(part.function)) is not None:
            yield name


def _walk(node: Any) -> Iterator[Any]:
    """A node and all below it, in the order of the text."""
    if isinstance(node, tuple):
        for part in node:
            yield from _walk(part)
    elif hasattr(node, "__dataclass_fields__") and not isinstance(node, tree.Span):
        yield node
        for name in node.__dataclass_fields__:
            yield from _walk(getattr(node, name))


# ------------------------------------------------------------------------------------------ variants, claims, tests


def _assertions(found: Checked) -> Iterator[AssertionEntry]:
    for assertion in found.claims.assertions:
        value = assertion.item.value
        told = "" if value is None else text_of(value)
        wrong = [d for d in found.diagnostics if d.code == "RLC0801" and value is not None and d.span == value.span]
        yield AssertionEntry(assertion.name, told, assertion.holds, wrong[0].message if wrong else "")


def _variant(name: str, found: Checked, varied: Checked, base: Side) -> VariantEntry:
    item = found.composition.variants[name]
    note = next((i.value.value for i in item.body or () if i.head.path[0].value == "note"
                 and isinstance(i.value, tree.Text)), "")  # fmt: skip
    if varied.plan is None:
        problem = "; ".join(f"{d.code} {d.message}" for d in varied.errors)
        return VariantEntry(name, note, None, problem)
    side = Side(f"{base.name}#{name}", varied.plan, found.source, varied.experiment, name)
    return VariantEntry(name, note, difference(base, side))


def _tests(found: Checked, varied: Mapping[str, Checked]) -> Iterator[TestEntry]:
    verdicts, _ = run_tests(found, varied)
    texts = {(c.name, e.name): text_of(e.expression) for c in found.cases for e in c.expectations}
    for verdict in verdicts:
        failure = verdict.failure
        notes = failure.notes if failure is not None else ()
        text = texts[verdict.case, verdict.expectation]
        yield TestEntry(verdict.case, verdict.expectation, text, failure is None, notes)
