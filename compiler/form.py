"""The value form of an experiment: what it means, as leaves with paths and formulas in normal form.

    ("stage", "train")               -> "grpo"        the component
    ("stage", "train", "kl", "place") -> "loss"       a field, defaults filled in
    ("signal", "verdict", "retail")  -> "turns.score" on one environment
    ("reward", "R", "retail")        -> a formula

It is made from the plan, so a spec, a stored plan and a run directory have it alike: params are inlined, `let`s and
`def`s expanded, units gone, provenance, titles and declared ranges left behind. Its digest is the value digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

from rlspec.compiler.catalog import schema
from rlspec.compiler.catalog.base import Ref
from rlspec.compiler.components import struct_of
from rlspec.compiler.normal import Node, Normaliser, renamed, shape, sum_of, terms_of
from rlspec.compiler.plan import ComponentPlan, Plan, SourcePlan, canonical
from rlspec.compiler.records import Record
from rlspec.dsl.annotations import Any, get_args, get_origin
from rlspec.dsl.dataclass import dataclass, field, replace

Path = tuple[str, ...]
Names = Mapping[tuple[str, str], str]
"""(kind, label) -> another label."""

ORDER: Path = ("stages",)
FORMULAS = ("reward", "advantage")
PER_ENV = ("signal", *FORMULAS, "credit", "failed")
WIRED = {"serves": "env", "on": "env"}
_APART = {"format", "name", "title", "notes", "seed", "policy", "engine", "envs", "users", "judges", "sources",
          "credit", "stages", "graph", "budget", "resources", "prices", "parts", "plugins"}  # fmt: skip
_MEASURED = ("device", "device_memory", "host_memory", "worker_memory", "usable", "generation_rate", "training_rate")


@dataclass(slots=True)
class Form:
    """See the module. `references` tells of which kind (`a|b` for several) a leaf's labels are."""

    leaves: dict[Path, Any] = field(default_factory=dict)
    formulas: dict[Path, Node] = field(default_factory=dict)
    references: dict[Path, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """`v1:` and 64 hex digits of SHA-256."""
        leaves = sorted(("/".join(path), value) for path, value in self.leaves.items())
        formulas = sorted(("/".join(path), whole.key) for path, whole in self.formulas.items())
        return "v1:" + hashlib.sha256(canonical([leaves, formulas]).encode()).hexdigest()

    @property
    def shape(self) -> str:
        """A key of the graph's shape: components, connections, stages, and formulas without their numbers."""
        leaves = {"/".join(p): v for p, v in self.leaves.items() if p in self.references or _is_part(p)}
        memo: dict[str, str] = {}
        formulas = {"/".join(p): shape(f, memo) for p, f in self.formulas.items()}
        return hashlib.sha256(canonical([leaves, formulas]).encode()).hexdigest()

    def labels(self, kind: str) -> list[str]:
        """The labels of a kind, in the order of the plan."""
        return list(dict.fromkeys(p[1] for p in (*self.leaves, *self.formulas) if p[0] == kind and len(p) > 1))

    def renamed(self, names: Names) -> Form:
        """The form with other labels, at every place that names them."""
        if not names:
            return self
        out = Form(references={_path(p, names): kind for p, kind in self.references.items()})
        for path, value in self.leaves.items():
            kinds = self.references.get(path, "")
            out.leaves[_path(path, names)] = _referred(value, kinds.split("|"), names) if kinds else value
        memo: dict[str, Node] = {}
        for path, whole in self.formulas.items():
            out.formulas[_path(path, names)] = renamed(whole, lambda op, old: _in_formula(op, old, names), memo)
        return out.sorted()

    def sorted(self) -> Form:
        """Sets of labels in order again."""
        for path in self.references:
            if path[-1] in WIRED and isinstance(self.leaves.get(path), list):
                self.leaves[path] = sorted(self.leaves[path])
        return self


def _is_part(path: Path) -> bool:
    return len(path) == 2 or path[0] == "signal"


def _path(path: Path, names: Names) -> Path:
    if len(path) < 2:
        return path
    kind, label, *rest = path
    if kind in PER_ENV and rest:
        words = rest[0].split("/")  # an environment, a stage, or both
        rest[0] = "/".join(names.get(("env", w), names.get(("stage", w), w)) for w in words)
    owner = {"mix": "env", "failed": "stage"}.get(kind, kind)
    return (kind, names.get((owner, label), label), *rest)


def _referred(value: Any, kinds: list[str], names: Names) -> Any:
    if isinstance(value, list):
        return [_referred(v, kinds, names) for v in value]
    if isinstance(value, str):
        label, dot, measure = value.partition(".")
        for kind in kinds:
            if (kind, label) in names:
                return f"{names[kind, label]}{dot}{measure}"
    return value


def _in_formula(op: str, old: str, names: Names) -> str:
    if op == "ref":
        return next((names[k, old] for k in FORMULAS if (k, old) in names), old)
    if "." in old:
        return str(_referred(old, ["judge", "stage"], names))
    return names.get(("signal", old), old)


# ------------------------------------------------------------------------------------------------------ from a plan


def form_of(plan: Plan) -> Form:
    """The value form of a plan."""
    form = Form()
    form.leaves[("seed",)] = plan.seed
    envs = sorted(e.label for e in plan.envs)
    for part in (plan.policy, plan.engine, *plan.envs, *plan.users, *plan.judges, *plan.prices, *plan.parts):
        _component(form, part, envs)
    for stage in plan.stages:
        _component(form, ComponentPlan(label=stage.label, kind="stage", name=stage.name, fields=stage.fields), envs)
    form.leaves[ORDER] = [s.label for s in plan.stages]
    form.references[ORDER] = "stage"
    form.leaves |= {("plugin", plugin.name): plugin.digest for plugin in plan.plugins}
    known: dict[str, dict[Path, Node]] = {}
    for source in plan.drawn:
        form.leaves[("mix", source.env)] = source.share
        _source(form, source, plan, known)
    for source in plan.sources:  # what differs from the environment's, whose formulas come first
        if source.stage is not None:
            _source(form, source, plan, known)
    _flat(form, ("credit",), plan.credit.model_dump(mode="json", exclude={"where"}))
    graph = plan.graph
    _flat(form, ("resources",), {"workers": len(graph.bundles), "strategy": graph.strategy,
                                 "ready_within": graph.ready_within, "step_within": graph.step_within,
                                 **(graph.bundles[0].model_dump(mode="json") if graph.bundles else {})})  # fmt: skip
    if plan.resources is not None:
        _flat(form, ("resources",), {name: plan.resources.fields[name] for name in _MEASURED})
    for name, value in plan.model_dump(mode="json", exclude=_APART).items():
        _flat(form, (name,), value)
    form.leaves = {path: _plain(value) for path, value in form.leaves.items()}
    return form


def _plain(value: Any) -> Any:
    """A whole number is one value, however it was spelt."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _component(form: Form, part: ComponentPlan, envs: list[str]) -> None:
    root: Path = (part.kind, part.label)
    form.leaves[root] = part.name
    _fields(form, root, part.fields, schema(part.kind, part.name))
    wiring = dict(part.wiring)
    if part.kind in ("user", "judge"):
        wiring.setdefault("serves" if part.kind == "user" else "on", envs)
    for name, value in wiring.items():
        form.leaves[*root, name] = sorted(value) if name in WIRED else value
        if name in WIRED:
            form.references[*root, name] = WIRED[name]


def _fields(form: Form, root: Path, values: Mapping[str, Any], owner: type[Record]) -> None:
    for name, value in values.items():
        info = owner.model_fields.get(name)
        path: Path = (*root, name)
        inner = struct_of(info.annotation) if info is not None else None
        if isinstance(value, dict) and value:
            if inner is not None:
                _fields(form, path, value, inner)
            else:
                _flat(form, path, value)
            continue
        ref = _reference_of(owner, name) if info is not None else ""  # type: ignore[arg-type]
        if ref == "let":
            continue  # a name of the author's; what it says is among the formulas
        unordered = info is not None and get_origin(info.annotation) in (frozenset, set)
        form.leaves[path] = sorted(value, key=canonical) if unordered and isinstance(value, list) else value
        if ref:
            form.references[path] = ref


@cache
def _reference_of(owner: type[Record], name: str) -> str:
    info = owner.model_fields[name]
    return _reference([*info.metadata, info.annotation])


def _reference(parts: Any) -> str:
    """The kind that a field's labels belong to, or nothing."""
    for part in parts:
        if isinstance(part, Ref):
            return part.kind
        if found := _reference((*getattr(part, "__metadata__", ()), *get_args(part))):
            return found
    return ""


def _flat(form: Form, path: Path, value: Any) -> None:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _flat(form, (*path, name), inner)
    else:
        form.leaves[path] = value


def _source(form: Form, source: SourcePlan, plan: Plan, known: dict[str, dict[Path, Node]]) -> None:
    """Signals, rewards and advantage of one source. `known` holds the formulas of programs met before."""
    direct, choices, paid = {}, {}, ""
    alone = sum(s.stage == source.stage for s in plan.sources) == 1
    place = source.name if source.stage is None or alone else f"{source.stage}/{source.env}"
    for signal in source.signals:
        label, _, measure = signal.measure.partition(".")
        if signal.choices:
            choices[signal.name] = signal.choices
        if signal.measure == "policy.kl":
            paid = signal.name  # written by the stage that places its KL in the reward, and compared there
            continue
        owner = "env" if label == source.env else "user" if label == source.user else label
        if signal.name == f"{label}_{measure}" or signal.measure == "stage.step":
            direct[signal.name] = f"{owner}.{measure}"
            continue
        path: Path = ("signal", signal.name, place)
        if form.leaves.get((*path[:2], source.env)) != f"{owner}.{measure}":
            form.leaves[path] = f"{owner}.{measure}"
            form.references[path] = "judge|stage"
    key = repr((source.program.model_dump_json(), choices, direct, paid, sorted(source.formulas), source.advantage))
    if key not in known:
        known[key] = _formulas(source, Normaliser(source.program, choices, direct), paid, plan.credit.where)
    for path, whole in known[key].items():
        usual = form.formulas.get((*path, source.env))
        if usual is None or usual.key != whole.key:
            form.formulas[*path, place] = whole


def _formulas(source: SourcePlan, normaliser: Normaliser, paid: str, where: str | None) -> dict[Path, Node]:
    """Rewards, advantage and the condition of the credit in normal form, by (kind, name)."""
    out: dict[Path, Node] = {}
    outputs = source.program.outputs
    rewards = {name: outputs[name] for name in source.formulas if name != source.advantage and name in outputs}
    inner = {name: step for name, step in rewards.items() if source.program.steps[step].op != "input"}
    for name in rewards:
        whole = normaliser.output(name, inner)
        if paid:
            whole = sum_of({k: t for k, t in terms_of(whole).items() if t[0].attr("name") != paid})
        out["reward", name] = whole
    out["advantage", source.advantage] = normaliser.output(source.advantage, rewards)
    if where is not None and where in outputs:
        out["credit", "where"] = normaliser.output(where, inner)
    for name in outputs:
        if name.endswith(".failed"):  # what a stage samples again
            out["failed", name.removesuffix(".failed")] = normaliser.output(name, inner)
    return out


def without(form: Form, root: Path) -> Form:
    """The form without a path and what lies below it."""

    def kept(path: Path) -> bool:
        return path[: len(root)] != root

    return replace(
        form,
        leaves={p: v for p, v in form.leaves.items() if kept(p)},
        formulas={p: f for p, f in form.formulas.items() if kept(p)},
    )
