"""The plan: the only thing that passes from compiler to runtime. Everything that a run does is in it.

A plan is JSON; `rlc run plan.json` needs nothing else. Components are named with all their fields resolved (defaults
filled in), formulas are programs, the graph says which role runs where, and the digest identifies the experiment: two
plans of one digest train the same weights on the same kind of machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.compiler.catalog import schema
from rlspec.compiler.catalog.base import Component
from rlspec.compiler.program import LevelName, Program
from rlspec.compiler.records import Field, Record, for_json, model_validator
from rlspec.dsl.annotations import Any, Literal
from rlspec.dsl.sha import sha256


class _Part(Record):
    """A part of a plan."""


class ComponentPlan(_Part):
    """A component with every field resolved. `wiring` is how it is connected (`serves`, `on`, `on_failure`)."""

    label: str
    kind: str
    name: str
    fields: dict[str, Any]
    wiring: dict[str, Any] = Field(default_factory=dict)

    def component(self) -> Component:
        """The catalog's instance.

        Raises:
            KeyError, ValidationError (records): the plan does not fit this version's catalog.
        """
        return schema(self.kind, self.name).model_validate(self.fields)


class SignalPlan(_Part):
    """A program's input: where its values come from. `measure` is "label.name"; `kind` how they are read (code:
    texts and choices become whole numbers, choices by their place in `choices`)."""

    name: str
    level: LevelName
    kind: Literal["real", "int", "bool", "code"]
    measure: str
    choices: tuple[str, ...] = ()


class TermPlan(_Part):
    """One term of the reward, for reports: the output of the program that holds it (with its sign), and its text."""

    output: str
    text: str


class SourcePlan(_Part):
    """One environment's share of the batch with its reward program. Group statistics never cross sources.

    With `stage`, the trajectories that this stage samples again: their keys begin with its label, and their share of
    the tasks is 0 because they come on top."""

    env: str
    share: float
    user: str | None
    judges: tuple[str, ...]
    signals: tuple[SignalPlan, ...]
    program: Program
    reward: str
    advantage: str
    advantage_level: LevelName
    terms: tuple[TermPlan, ...]
    ranges: dict[str, str]
    formulas: dict[str, str]
    stage: str | None = None
    returns: str | None = None  # the result that a critic learns: the advantage before whitening, plus the value

    @property
    def name(self) -> str:
        """What formulas are `on`: the environment, or the stage whose trajectories these are."""
        return self.stage or self.env


class CreditPlan(_Part):
    """Which tokens carry the advantage. `where` is the result of every source's program that says so (nonzero: yes; it
    may be coarser than tokens); a token that it leaves out is not learned from and counts in no denominator."""

    to: Literal["agent_tokens"] = "agent_tokens"
    where: str | None = None


class StagePlan(_Part):
    """A stage in the order of execution; `policy_from` is the stage whose weights it starts from."""

    label: str
    name: str
    fields: dict[str, Any]
    policy_from: str | None

    def component(self) -> Component:
        return schema("stage", self.name).model_validate(self.fields)


class EdgePlan(_Part):
    """What flows from one node of the graph to another."""

    source: str
    target: str
    what: str


class RolePlan(_Part):
    """One role of the graph. Roles of one `bundle` share a process and its resources."""

    name: str
    role: Literal["rollout", "trainer", "scorer"]
    rank: int
    bundle: int


class BundlePlan(_Part):
    """Resources of one process, as Ray reserves them in the run's placement group."""

    cpus: float
    gpus: float
    threads: int


class GraphPlan(_Part):
    """Roles, where they run, what flows between them; deadlines in seconds."""

    roles: tuple[RolePlan, ...]
    bundles: tuple[BundlePlan, ...]
    edges: tuple[EdgePlan, ...]
    strategy: Literal["PACK", "SPREAD"] = "PACK"
    ready_within: float
    step_within: float


class BudgetPlan(_Part):
    """Upper bounds of one step of a stage."""

    stage: str
    steps: int
    trajectories: int
    tokens: int
    user_replies: int
    judge_calls: int


class PluginPlan(_Part):
    """A plugin whose components the plan uses. `document` is its schema, so that the plan can be read where the plugin
    is not installed; `digest` is that of what the schema means, `origin` says where it was read."""

    name: str
    origin: str
    digest: str
    document: dict[str, Any]


ESTIMATES = ("resources", "prices")
"""Parts of a plan that only `rlc plan` reads: what the machine has, what calls cost. No run depends on them."""


class Plan(_Part):
    """See the module."""

    format: Literal["rlspec.plan/1"] = "rlspec.plan/1"
    name: str
    title: str
    seed: int
    policy: ComponentPlan
    engine: ComponentPlan
    envs: tuple[ComponentPlan, ...]
    users: tuple[ComponentPlan, ...]
    judges: tuple[ComponentPlan, ...]
    sources: tuple[SourcePlan, ...]
    credit: CreditPlan
    stages: tuple[StagePlan, ...]
    graph: GraphPlan
    budget: tuple[BudgetPlan, ...]
    resources: ComponentPlan | None = None
    prices: tuple[ComponentPlan, ...] = ()
    parts: tuple[ComponentPlan, ...] = ()  # of kinds that only plugins have
    plugins: tuple[PluginPlan, ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _with_plugins(self) -> Plan:
        """The components of its plugins are in the catalog wherever a plan is read."""
        for plugin in self.plugins:
            from rlspec.compiler.plugins import revive  # most plans have none

            if revive(plugin.document, plugin.origin).digest != plugin.digest:
                raise ValueError(f"the schema of plugin {plugin.name} is not that of its digest")
        return self

    @property
    def digest(self) -> str:
        """`p1:` and 64 hex digits of SHA-256 over the canonical JSON, without title, notes, estimates, and deadlines.
        It identifies a run, so placement counts: another number of workers gives other last bits. What two
        experiments share wherever they run is `rlspec.compiler.digests.graph_digest`."""
        body = self.model_dump(mode="json", exclude={"title", "notes", *ESTIMATES})
        for word in ("ready_within", "step_within"):
            del body["graph"][word]
        body["policy"]["fields"].pop("shape", None)
        drop_unused(body)
        return "p1:" + sha256(canonical(body).encode()).hexdigest()

    @property
    def short(self) -> str:
        """`name-digest`, the default name of a run directory."""
        return f"{self.name}-{self.digest[3:11]}"

    @property
    def drawn(self) -> tuple[SourcePlan, ...]:
        """The sources that tasks are drawn for: one per environment."""
        return tuple(s for s in self.sources if s.stage is None)

    def examined(self, on: Sequence[str]) -> tuple[SourcePlan, ...]:
        """The sources that an evaluation `on` these environments measures: without any, all that there are."""
        return tuple(s for s in self.drawn if not on or s.env in on)

    def examines(self, user: str, env: str) -> bool:
        """Whether the user that an evaluation names serves an environment; no label is nobody."""
        return bool(user) and env in self.labelled(user).wiring.get("serves", [env])

    def source_of(self, env: str, key: str) -> SourcePlan:
        """The source that scores a trajectory of an environment, by its key ("train/12/5/3").

        Raises:
            KeyError: there is none.
        """
        own = [s for s in self.sources if s.env == env]
        label = key.partition("/")[0]
        for source in (*(s for s in own if s.stage == label), *(s for s in own if s.stage is None)):
            return source
        raise KeyError(env)

    def labelled(self, label: str) -> ComponentPlan:
        """The component of that label.

        Raises:
            KeyError: none has it.
        """
        for part in (self.policy, self.engine, *self.envs, *self.users, *self.judges, *self.prices, *self.parts):
            if part.label == label:
                return part
        raise KeyError(label)


def drop_unused(body: dict[str, Any]) -> None:
    """Leave out of a plan's JSON what the language learned later and this plan has no use for, so that its digests stay
    what they were."""
    for part in (body["credit"], *body["sources"]):
        for name in ("where", "stage", "returns"):
            if part.get(name, "") is None:
                del part[name]
    body["plugins"] = [[plugin["name"], plugin["digest"]] for plugin in body["plugins"]]
    for name in ("parts", "plugins"):
        if not body[name]:
            del body[name]


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text. Records may be among them."""
    import json

    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=for_json
    )
