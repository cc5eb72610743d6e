"""Check and compile: the front door of the compiler.

checked = check(read("quickstart.rlspec"))
checked.diagnostics      # all of them, in the order of the text
checked.plan             # None when there is an error

`check` looks at the experiment with one variant (or none); `check_whole` at all variants of the file as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlspec.compiler.compose import Composition, compose
from rlspec.compiler.experiment import Experiment, resolve
from rlspec.compiler.formulas import Formulas, elaborate
from rlspec.compiler.levels import Level
from rlspec.compiler.lints import lint
from rlspec.compiler.order import in_time, suited
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name
from rlspec.dsl.fixes import offered

if TYPE_CHECKING:
    from rlspec.compiler.claims import Claims
    from rlspec.compiler.plan import Plan
    from rlspec.compiler.spectest import Case, Verdict

ABLATED = ("RLC0503", "RLC0513", "RLC0541")
"""Warnings that are an ablation's own point: what is no longer read, and a user who is no longer live."""
REQUIRED = ("policy", "env", "stage")


@dataclass(slots=True)
class Checked:
    """What a check found. `formulas`, those of each source, are there exactly when there is no error. `composition`
    holds the file's variants, claims and tests, and the states of the experiment from layer to layer."""

    source: Source
    diagnostics: list[Diagnostic]
    experiment: Experiment | None
    formulas: list[Formulas] | None
    composition: Composition
    stated: Stated
    _plan: Plan | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan, where there is no error. It is made when somebody asks: to say what is wrong needs none."""
        if self._plan is None and self.experiment is not None and self.formulas is not None:
            from rlspec.compiler.lower import lower

            self._plan = lower(self.experiment, self.formulas)
        return self._plan

    @property
    def claims(self) -> Claims:
        """The published numbers of the file."""
        from rlspec.compiler.claims import Claims

        return self.stated.claims or Claims()

    @property
    def cases(self) -> list[Case]:
        """The tests of the file."""
        return self.stated.cases

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]


def settings_of(pairs: Mapping[str, str]) -> dict[str, tree.Expression]:
    """`--set name=value` in the file's own grammar.

    Raises:
        SpecError: a value does not parse.
    """
    out = {}
    for name, text in pairs.items():
        source = Source(f"--set {name}", f"{name} = {text}")
        file, report = parser.parse(source)
        if report or len(file.items) != 1 or file.items[0].value is None:
            raise SpecError(report or [Diagnostic("RLC0201", f"--set {name}={text}: this is no value", source=source)])
        out[name] = file.items[0].value
    return out


def check(
    source: Source,
    settings: Mapping[str, tree.Expression] | None = None,
    seed: int | None = None,
    variant: str | None = None,
    overlays: Sequence[Source] = (),
    fits: bool = True,
) -> Checked:
    """Parse, compose, resolve, type and lower. Never raises for what the spec says; everything is in `diagnostics`.
    Without `fits` a plan that exceeds the declared memory is no error."""
    return _checked(source, parser.parse(source), settings, seed, variant, overlays, fits)


def _checked(
    source: Source,
    parsed: tuple[tree.File, list[Diagnostic]],
    settings: Mapping[str, tree.Expression] | None = None,
    seed: int | None = None,
    variant: str | None = None,
    overlays: Sequence[Source] = (),
    fits: bool = True,
    stated: Stated | None = None,
) -> Checked:
    file, report = parsed[0], list(parsed[1])
    sound = not report or bool(file.items)
    composition = compose(file, source, report, variant, overlays)
    experiment = (
        resolve(composition.file, report, settings, composition.definitions)
        if sound and not composition.broken
        else None
    )
    formulas = None
    if experiment is not None:
        experiment.plugins = composition.plugins
        if seed is not None:
            experiment.seed = seed
        _complete(experiment, report)
        suited(experiment, report)
        sources = elaborate(experiment, report)
        if not any(d.severity == "error" for d in report):
            _credit(experiment, [s.advantage for s in sources], [s.advantage_level for s in sources], report)
        if not any(d.severity == "error" for d in report):
            in_time(experiment, sources, report)
        if not any(d.severity == "error" for d in report):
            formulas = sources
            lint(experiment, sources, report)
            if fits and experiment.of("resources"):
                from rlspec.compiler.costs.fit import report_excess  # most specs declare no memory
                from rlspec.compiler.lower import lower

                report_excess(experiment, lower(experiment, sources), report)
    stated = stated or _stated(composition)
    report += stated.report
    if any(d.severity == "error" for d in report):
        formulas = None
    report.sort(key=lambda d: d.span.start if d.span else -1)
    placed = offered([composition.placed(d) for d in report], source)
    return Checked(source, placed, experiment, formulas, composition, stated)


@dataclass(slots=True)
class Stated:
    """The claims (None: there are none) and tests of a file, which are the same with every variant, and what is wrong
    with them."""

    claims: Claims | None = None
    cases: list[Case] = field(default_factory=list)
    report: list[Diagnostic] = field(default_factory=list)


def _stated(composition: Composition) -> Stated:
    out = Stated()
    if composition.claims:
        from rlspec.compiler.claims import claims_of

        out.claims = claims_of(composition.claims, out.report)
    if composition.tests:
        from rlspec.compiler.spectest import cases_of

        out.cases = cases_of(composition.tests, out.report)
    return out


def check_whole(
    source: Source, settings: Mapping[str, tree.Expression] | None = None, overlays: Sequence[Source] = ()
) -> Checked:
    """`check` of the experiment as it stands, with the diagnostics of all its variants: each one once, and with a note
    that names the variant when only a variant has it. A signal that an ablation no longer reads is no news. Mistakes in
    tests are reported; whether their expectations hold is for `run_tests` to say."""
    parsed = parser.parse(source)
    kinds = {item.head.path[0].value for item in parsed[0].items}
    if "def" in kinds and kinds <= {"rlspec", "use", "def"} and not parsed[1]:
        return _definitions(source, parsed[0])
    found = _checked(source, parsed, settings, None, None, overlays)
    composition = found.composition
    tested = {case.variant.value for case in found.cases if case.variant is not None}
    own = [n for n in composition.variants if n not in composition.inherited or n in tested]
    stated = found.stated
    variants = {name: _checked(source, parsed, settings, None, name, overlays, stated=stated) for name in own}
    found.diagnostics += [d for d in run_tests(found, variants)[1] if d not in found.diagnostics]
    seen = {_identity(d) for d in found.diagnostics}
    for name, varied in variants.items():
        from rlspec.compiler.variant_lints import confounded

        sound = found.formulas is not None and varied.formulas is not None
        if sound and found.experiment and varied.experiment:
            both = confounded(found.experiment, varied.experiment, composition.variants[name])
            if both is not None:
                found.diagnostics.append(composition.placed(both))
        for diagnostic in varied.diagnostics:
            idle = diagnostic.code in ABLATED and diagnostic.severity == "warning"
            if idle or _identity(diagnostic) in seen:
                continue
            seen.add(_identity(diagnostic))
            found.diagnostics.append(replace(diagnostic, notes=(*diagnostic.notes, f"in variant `{name}`")))
    found.diagnostics.sort(key=lambda d: d.span.start if d.span else -1)
    return found


def _definitions(source: Source, file: tree.File) -> Checked:
    """The check of a file that holds definitions alone, for others to use."""
    from rlspec.compiler.defined import check_definitions

    report: list[Diagnostic] = []
    composition = compose(file, source, report)
    check_definitions(composition.file, composition.definitions, report)
    report.sort(key=lambda d: d.span.start if d.span else -1)
    return Checked(source, offered(report, source), None, None, composition, Stated())


def run_tests(found: Checked, variants: Mapping[str, Checked] | None = None) -> tuple[list[Verdict], list[Diagnostic]]:
    """Score the tests of a spec that is without errors; a test of a variant (`variant = name`) needs that variant's
    check. Returns the verdicts, and the mistakes in the tests."""
    verdicts: list[Verdict] = []
    report: list[Diagnostic] = []
    for case in found.cases:
        subject = found
        if case.variant is not None:
            name = case.variant.value
            if variants is None or name not in variants:
                near = near_name(name, found.composition.variants)
                hint = f"did you mean `{near}`?" if near else ""
                report.append(Diagnostic("RLC0101", f"there is no variant `{name}`", case.variant.span, label=hint))
                continue
            subject = variants[name]
        if subject.experiment is not None and subject.formulas is not None:
            from rlspec.compiler.spectest import run_case

            verdicts += run_case(subject.experiment, case, report)
    # warnings about the spec's own formulas, which a scene elaborates again, are the check's to give
    return verdicts, [found.composition.placed(d) for d in report if d.severity == "error"]


def _identity(diagnostic: Diagnostic) -> tuple[str, int | None, str]:
    return diagnostic.code, diagnostic.span.start if diagnostic.span else None, diagnostic.message


def _complete(experiment: Experiment, report: list[Diagnostic]) -> None:
    written = {i.head.path[0].value for i in experiment.item.body or ()}
    for kind in REQUIRED:
        if kind not in written:
            report.append(
                Diagnostic("RLC0502", f"the experiment has no {kind}", experiment.item.head.span,
                           label=f"declare a {kind}")
            )  # fmt: skip
    if "credit" not in written and "advantage" in written:
        report.append(
            Diagnostic("RLC0502", "the experiment does not say which tokens carry the advantage",
                       experiment.item.head.span, label="declare `credit = agent_tokens(A)`")
        )  # fmt: skip
    for kind in ("policy", "engine", "resources"):
        for extra in list(experiment.of(kind).values())[1:]:
            report.append(Diagnostic("RLC0105", f"an experiment has one {kind}", extra.item.head.span))
    missing = [e for e in experiment.of("env") if experiment.mix and e not in experiment.mix]
    for label in missing:
        item = experiment.of("env")[label].item
        report.append(Diagnostic("RLC0503", f"env `{label}` has no share in the mix", item.head.span))


def _credit(experiment: Experiment, advantages: list[str], levels: list[Level], report: list[Diagnostic]) -> None:
    if experiment.credit is None:
        return
    for advantage, level in zip(advantages, levels, strict=True):
        if advantage != experiment.credit:
            report.append(
                Diagnostic("RLC0101", f"there is no advantage `{experiment.credit}`", experiment.credit_span,
                           label=f"did you mean `{advantage}`?")
            )  # fmt: skip
        elif level < Level.TRAJ:
            report.append(
                Diagnostic("RLC0307", f"an advantage of level {level.label} is the same for a whole group",
                           experiment.credit_span)
            )  # fmt: skip
