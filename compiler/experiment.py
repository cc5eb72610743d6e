"""An experiment: the declarations of a file, resolved against the catalog. Formulas stay trees until
`rlspec.compiler.formulas` elaborates them per environment.

All declarations are read before any is judged, so their order means nothing, except that stages run in the order in
which they are written.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlspec.compiler import static
from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Component
from rlspec.compiler.components import Reader, construct_text
from rlspec.compiler.elaborate import Failed, dotted
from rlspec.compiler.ranges import Range, number_text
from rlspec.compiler.static import Construct, Leaf, Origin, Quantity, Series, Symbol
from rlspec.compiler.types import NUMERIC, Type, read_type
from rlspec.compiler.uses import define
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING, Any
from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.diagnostics import Diagnostic, near_name

if TYPE_CHECKING:
    from rlspec.compiler.plugins import PluginSchema

FORMULAS = ("signal", "let", "reward", "advantage")
SETTINGS = ("title", "cites", "seed", "note")
OTHERS = ("param", "mix", "credit", "def", "variant", "sweep", "claims", "test")
WIRING: dict[str, dict[str, str]] = {
    "env": {"on_failure": ""},
    "user": {"serves": "env", "on_failure": ""},
    "judge": {"on": "env", "on_failure": ""},
}
FAILURE_RULES = {"retry": 1, "drop": 0, "outcome_only": 0, "abort_above": 1}
ENDS = ("drop", "outcome_only")
"""Rules after which nothing is left to be done about one failure; `abort_above` counts the failures of a step."""


@dataclass(slots=True)
class Declared:
    """A component with its place. `wiring` is JSON (`serves`, `on`, `on_failure`). `component` is None when its fields
    are wrong (that is reported); its schema still tells what it measures."""

    kind: str
    label: str
    schema: type[Component]
    component: Component | None
    item: tree.Item
    wiring: dict[str, Any]
    origins: dict[str, Origin]

    @property
    def name(self) -> str:
        """The component's name in the catalog."""
        return self.schema.NAME

    @property
    def made(self) -> Component:
        """The component of a declaration without errors."""
        assert self.component is not None, f"{self.kind} {self.label} was reported and then used"
        return self.component


@dataclass(slots=True)
class Formula:
    """A declared formula: signal, let, reward or advantage, perhaps only `on` one environment, or on the trajectories
    that a stage samples again."""

    kind: str
    name: str
    type: Type | None
    on: str | None
    expression: tree.Expression
    item: tree.Item


@dataclass(slots=True)
class Experiment:
    """Everything declared, sound parts only. `stages` and `formulas` are in the order of the file."""

    name: str
    item: tree.Item
    title: str = ""
    note: str = ""
    cites: list[Any] = field(default_factory=list)
    seed: int = 0
    params: dict[str, Leaf] = field(default_factory=dict)
    components: dict[str, dict[str, Declared]] = field(default_factory=dict)
    formulas: list[Formula] = field(default_factory=list)
    definitions: dict[str, tree.Item] = field(default_factory=dict)
    plugins: dict[str, PluginSchema] = field(default_factory=dict)
    mix: dict[str, float] = field(default_factory=dict)
    credit: str | None = None
    credit_where: tree.Expression | None = None
    credit_span: tree.Span | None = None

    def of(self, kind: str) -> dict[str, Declared]:
        """Declarations of a kind, by label."""
        return self.components.get(kind, {})


def _idle(rules: list[Any]) -> str:
    """What is wrong with a list of failure rules, one of which can never act; empty where each can."""
    names = [next(iter(rule)) if isinstance(rule, dict) else rule for rule in rules]
    for number, name in enumerate(names):
        before = names[:number]
        if name in before:
            return f"`{name}` is given twice"
        end = next((e for e in before if e in ENDS), "")
        if end and name != "abort_above":
            return f"`{name}` can never act: it comes after `{end}`, which ends the matter"
    return ""


def resolve(
    file: tree.File,
    report: list[Diagnostic],
    settings: Mapping[str, tree.Expression] | None = None,
    used: Mapping[str, tree.Item] | None = None,
) -> Experiment | None:
    """The file's experiment, after reporting everything that is wrong with its declarations; None without one.

    `settings` are parameters from the command line; their diagnostics carry no place in the file. `used` are
    definitions of other files, by dotted name.
    """
    definitions: dict[str, tree.Item] = {}
    found: list[tree.Item] = []
    for item in file.items:
        kind = item.head.path[0].value
        if kind == "experiment" and item.body is not None:
            found.append(item)
        elif kind == "def":
            define(item, definitions, report)
        elif kind not in ("rlspec", "use"):
            near = near_name(kind, ["experiment", "def", "use", "rlspec"])
            hint = f"did you mean `{near}`?" if near else "a file holds `rlspec = 1`, `use`s, `def`s and one experiment"
            report.append(Diagnostic("RLC0102", f"unknown kind `{kind}`", item.head.path[0].span, label=hint))
    edition = next((i for i in file.items if i.head.path[0].value == "rlspec"), None)
    if edition is None or not (isinstance(edition.value, tree.Number) and edition.value.value == 1):
        span = edition.span if edition else tree.Span(0, 0)
        older = edition is not None and isinstance(edition.value, tree.Number) and edition.value.value == 0
        label = "`rlc fix` brings the file to edition 1" if older else "write `rlspec = 1`"
        report.append(Diagnostic("RLC0009", "the file must say its edition", span, label=label))
    if len(found) != 1:
        count = "no experiment" if not found else f"{len(found)} experiments"
        span = found[1].head.span if found else tree.Span(0, 0)
        report.append(Diagnostic("RLC0110", f"the file has {count}", span, label="a spec declares exactly one"))
        return None
    return _Resolver(found[0], {**definitions, **(used or {})}, report, settings or {}).experiment


class _Resolver:
    """Reads one experiment's items in three passes: parameters, labels, then everything else."""

    def __init__(
        self,
        item: tree.Item,
        definitions: dict[str, tree.Item],
        report: list[Diagnostic],
        settings: Mapping[str, tree.Expression],
    ) -> None:
        self.report = report
        label = item.head.labels[0].value if item.head.labels else ""
        if not label:
            report.append(Diagnostic("RLC0108", "an experiment needs a name", item.head.span))
        self.experiment = Experiment(label or "unnamed", item, definitions=definitions)
        self.body = item.body or ()
        self.labels: dict[str, set[str]] = {}
        self.resampling: set[str] = set()  # labels of stages that formulas may be `on`
        self._params(settings)
        self._collect_labels()
        self.reader = Reader(self.experiment.params, self.labels, report)
        for inner in self.body:
            try:
                self._item(inner)
            except Failed:
                continue

    def fail(self, code: str, message: str, span: tree.Span, label: str = "") -> Failed:
        self.report.append(Diagnostic(code, message, span, label=label))
        return Failed()

    # ---------------------------------------------------------------------------------------------- parameters

    def _params(self, settings: Mapping[str, tree.Expression]) -> None:
        params = self.experiment.params
        declared: dict[str, tree.Item] = {}
        for item in self.body:
            if item.head.path[0].value == "param" and item.head.labels:
                name = item.head.labels[0].value
                if name in declared:
                    self.report.append(Diagnostic("RLC0105", f"param `{name}` is declared twice", item.head.span))
                declared[name] = item
        for name in settings:
            if name not in declared:
                near = near_name(name, declared)
                cure = f"did you mean `{near}`?" if near else f"its params: {', '.join(declared) or 'none'}"
                self.report.append(Diagnostic("RLC0112", f"the experiment has no param `{name}`", notes=(cure,)))
        for name, item in declared.items():
            try:
                params[name] = self._param(name, item, settings.get(name))
            except Failed:  # reported; what uses it is checked with the file's own value
                own = _value_or_none(item, params)
                if own is not None:
                    params[name] = own

    def _param(self, name: str, item: tree.Item, setting: tree.Expression | None) -> Leaf:
        if item.head.type is None or item.value is None:
            raise self.fail("RLC0207", "a parameter is `param name : type = value`", item.head.span)
        wanted = read_type(item.head.type, self.report)
        if wanted is None:
            raise Failed()
        before = len(self.report)
        try:
            leaf = static.leaf(setting if setting is not None else item.value, self.experiment.params, self.report)
            self._fits(name, leaf, wanted, item.value.span)
        except Failed:
            if setting is not None:  # its spans belong to the command line
                for position in range(before, len(self.report)):
                    old = self.report[position]
                    self.report[position] = Diagnostic(old.code, f"--set {name}: {old.message}", notes=old.notes)
            raise
        return Leaf(leaf.value, Origin("set", "command line")) if setting is not None else leaf

    def _fits(self, name: str, leaf: Leaf, wanted: Type, span: tree.Span) -> None:
        value = leaf.value
        kind = {Quantity: "real", bool: "bool", str: "text", Symbol: "enum"}.get(type(value), "?")
        if wanted.base in NUMERIC:
            if not isinstance(value, Quantity) or (wanted.base == "int" and value.value != int(value.value)):
                raise self.fail("RLC0201", f"param `{name}` is {wanted.base}, not {static.shown(value)}", span)
            if not Range.of(value.value).within(wanted.range):
                shown = number_text(value.value)
                raise self.fail("RLC0401", f"param `{name}` is in {wanted.range}, not {shown}", span)
        elif wanted.base != kind or (kind == "enum" and value.name not in wanted.choices):  # type: ignore[union-attr]
            raise self.fail("RLC0201", f"param `{name}` is {wanted}, not {static.shown(value)}", span)

    # -------------------------------------------------------------------------------------------------- labels

    def _collect_labels(self) -> None:
        kinds = [*catalog(), *FORMULAS]
        for item in self.body:
            kind = item.head.path[0].value
            if kind in kinds and item.head.labels:
                label = item.head.labels[0].value
                taken = self.labels.setdefault(kind, set())
                if label in taken and kind in catalog():
                    self.report.append(Diagnostic("RLC0105", f"{kind} `{label}` is declared twice", item.head.span))
                taken.add(label)
                if kind == "stage" and getattr(self._schema(item), "RIDES", False):
                    self.resampling.add(label)
        for label in self.resampling & self.labels.get("env", set()):
            span = next(i.head.span for i in self.body if i.head.labels and i.head.labels[0].value == label)
            self.report.append(Diagnostic("RLC0105", f"an env and a stage are both called `{label}`", span,
                                          label="formulas could not say which they are on"))  # fmt: skip

    @staticmethod
    def _schema(item: tree.Item) -> type[Component] | None:
        """The component that a declaration names, if there is one."""
        written = item.head.type
        name = written.base.value if written is not None and isinstance(written.base, tree.Name) else ""
        return catalog()[item.head.path[0].value].get(name)

    # --------------------------------------------------------------------------------------------------- items

    def _item(self, item: tree.Item) -> None:
        head, kind = item.head, item.head.path[0].value
        if kind in catalog():
            self._component(kind, item)
        elif kind in FORMULAS:
            self._formula(kind, item)
        elif kind in SETTINGS:
            self._setting(kind, item)
        elif kind == "mix":
            self._mix(item)
        elif kind == "credit":
            self._credit(item)
        elif kind == "def":
            define(item, self.experiment.definitions, self.report)
        elif kind != "param":
            known = [*catalog(), *FORMULAS, *SETTINGS, *OTHERS]
            near = near_name(kind, known)
            hint = f"did you mean `{near}`?" if near else "kinds: " + ", ".join(sorted(known))
            raise self.fail("RLC0102", f"unknown kind `{kind}`", head.path[0].span, hint)

    def _component(self, kind: str, item: tree.Item) -> None:
        head = item.head
        if len(head.labels) != 1:
            raise self.fail("RLC0108", f"a {kind} needs one label", head.span, f"write `{kind} name : component {{ }}`")
        label = head.labels[0].value
        known = catalog()[kind]
        listed = ", ".join(sorted(known))
        if head.type is not None and isinstance(head.type.base, tree.Member):
            word = dotted(head.type.base) or ""
            hint = f'a plugin is used by `use {word.partition(".")[0]} = plugin("...")`'
            raise self.fail("RLC0103", f"there is no {kind} `{word}`", head.type.base.span, hint)
        if head.type is None or not isinstance(head.type.base, tree.Name):
            raise self.fail("RLC0103", f"which {kind}?", head.span, f"write `{kind} {label} : {min(known)} {{ }}`")
        name = head.type.base.value
        if name not in known:
            near = near_name(name, known)
            hint = f"did you mean `{near}`?" if near else f"known: {listed}"
            raise self.fail("RLC0103", f"there is no {kind} `{name}`", head.type.base.span, hint)
        if item.body is None:
            raise self.fail("RLC0207", f"a {kind} takes a block: `{{ ... }}`", head.span)
        wired = [i for i in item.body if i.head.path[0].value in WIRING.get(kind, {})]
        plain = tuple(i for i in item.body if i not in wired)
        wiring = {k: v for i in wired if (pair := self._wire(kind, i)) for k, v in [pair]}
        made, fields = self.reader.component(known[name], item, plain)
        declared = Declared(kind, label, known[name], made, item, wiring, fields.origins)
        self.experiment.components.setdefault(kind, {})[label] = declared

    def _wire(self, kind: str, item: tree.Item) -> tuple[str, Any] | None:
        name = item.head.path[0].value
        if item.value is None:
            self.report.append(Diagnostic("RLC0207", f"`{name}` takes a value", item.head.span))
            return None
        try:
            value = static.leaf(item.value, self.experiment.params, self.report).value
        except Failed:
            return None
        items = value.items if isinstance(value, Series) else (value,)
        target = WIRING[kind][name]
        for entry in items:
            if target and not (isinstance(entry, Symbol) and entry.name in self.labels.get(target, set())):
                near = near_name(getattr(entry, "name", ""), self.labels.get(target, set()))
                hint = f"did you mean `{near}`?" if near else ""
                self.report.append(
                    Diagnostic("RLC0101", f"there is no {target} {static.shown(entry)}", item.value.span, label=hint)
                )
                return None
            if not target and not self._is_failure_rule(entry):
                rules = "retry(n), drop, outcome_only, abort_above(share)"
                self.report.append(
                    Diagnostic(
                        "RLC0202",
                        f"{static.shown(entry)} is no rule for failures",
                        item.value.span,
                        label=rules,
                    )
                )
                return None
        written = [construct_text(e) for e in items]
        if not target and (idle := _idle(written)):
            self.report.append(Diagnostic("RLC0542", idle, item.value.span, label="e.g. `[retry(3), drop]`"))
            return None
        return name, written

    @staticmethod
    def _is_failure_rule(entry: static.Static) -> bool:
        if isinstance(entry, Symbol):
            return FAILURE_RULES.get(entry.name) == 0
        return isinstance(entry, Construct) and FAILURE_RULES.get(entry.name) == len(entry.arguments)

    def _formula(self, kind: str, item: tree.Item) -> None:
        head = item.head
        if len(head.labels) != 1 or not isinstance(head.labels[0], tree.Name):
            raise self.fail("RLC0108", f"a {kind} needs one name", head.span, f"write `{kind} name : type = ...`")
        if item.value is None:
            raise self.fail("RLC0207", f"a {kind} is `{kind} name : type = expression`", head.span)
        wanted = read_type(head.type, self.report) if head.type is not None else None
        if wanted is None and (head.type is not None or kind != "let"):
            if head.type is None:
                self.report.append(
                    Diagnostic("RLC0203", f"{kind} `{head.labels[0].value}` needs a type", head.span,
                               label="e.g. `: real@traj`")
                )  # fmt: skip
            raise Failed()
        on = head.on.value if head.on else None
        known = self.labels.get("env", set()) | self.resampling
        if on is not None and on not in known:
            near = near_name(on, known)
            hint = f"did you mean `{near}`?" if near else ""
            if on in self.labels.get("stage", set()):
                hint = "only a stage that samples again has formulas of its own"
            raise self.fail("RLC0101", f"there is no env `{on}`", head.on.span, hint)  # type: ignore[union-attr]
        name = head.labels[0].value
        for other in self.experiment.formulas:
            ons = {other.on, on}
            both = other.on == on or (None in ons and not ons & self.resampling)
            if other.name == name and (both or other.kind != kind):
                raise self.fail("RLC0105", f"`{name}` is declared twice", head.span)
        self.experiment.formulas.append(Formula(kind, name, wanted, on, item.value, item))

    def _setting(self, kind: str, item: tree.Item) -> None:
        if item.value is None:
            raise self.fail("RLC0207", f"`{kind}` takes a value", item.head.span)
        value = static.leaf(item.value, self.experiment.params, self.report).value
        if kind == "cites":
            entries = value.items if isinstance(value, Series) else (value,)
            self.experiment.cites = [construct_text(entry) for entry in entries]
        elif kind == "seed":
            if not isinstance(value, Quantity) or value.value != int(value.value) or value.value < 0 or value.unit:
                raise self.fail("RLC0201", "a seed is a whole number, 0 or more", item.value.span)
            self.experiment.seed = int(value.value)
        elif isinstance(value, str):
            setattr(self.experiment, kind, value)
        else:
            raise self.fail("RLC0201", f"`{kind}` is a text in quotes", item.value.span)

    def _mix(self, item: tree.Item) -> None:
        shares: dict[str, float] = {}
        for entry in item.body or ():
            label = entry.head.path[0].value
            if label not in self.labels.get("env", set()):
                near = near_name(label, self.labels.get("env", set()))
                raise self.fail(
                    "RLC0101",
                    f"there is no env `{label}`",
                    entry.head.span,
                    f"did you mean `{near}`?" if near else "",
                )
            if entry.value is None:
                raise self.fail("RLC0207", "a share is `env = number`", entry.head.span)
            value = static.leaf(entry.value, self.experiment.params, self.report).value
            if not isinstance(value, Quantity) or not 0 <= value.value <= 1 or value.unit not in ("", "%"):
                raise self.fail("RLC0401", "a share is a number in [0, 1]", entry.value.span)
            shares[label] = value.value
        if item.body is None or abs(sum(shares.values()) - 1) > 1e-9:
            total = number_text(sum(shares.values()))
            raise self.fail("RLC0401", f"the shares of a mix add up to 1, these to {total}", item.head.span)
        self.experiment.mix = shares

    def _credit(self, item: tree.Item) -> None:
        value = item.value
        if (
            not isinstance(value, tree.Call)
            or not isinstance(value.function, tree.Name)
            or value.function.value != "agent_tokens"
            or not value.arguments
            or not isinstance(value.arguments[0].value, tree.Name)
            or any(a.name is None or a.name.value != "where" for a in value.arguments[1:])
            or len(value.arguments) > 2
        ):
            raise self.fail("RLC0205", "credit is `agent_tokens(A)`, perhaps with `where = condition`", item.span)
        self.experiment.credit_where = value.arguments[1].value if len(value.arguments) == 2 else None
        self.experiment.credit = value.arguments[0].value.value
        self.experiment.credit_span = value.arguments[0].span


def _value_or_none(item: tree.Item, params: Mapping[str, Leaf]) -> Leaf | None:
    """The value that a parameter's declaration writes, if it can be read."""
    try:
        return None if item.value is None else static.leaf(item.value, params, [])
    except Failed:
        return None
