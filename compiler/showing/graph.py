"""The plan as a graph of people's words: what there is, and what flows between.

    graph = graph_of(plan, "roles")        # policy, environments, users, judges, signals, reward, advantage, credit
    graph_of(plan, "stages")               # the stages with their rollouts, scorers and trainers
    graph_of(plan, "formulas")             # from what is measured, over the reward's terms, to the advantage

It is made from the plan alone, so that a spec, a stored plan and a run have it alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.compiler.showing.maths import bare_text
from rlspec.dsl.annotations import Literal

View = Literal["roles", "stages", "formulas"]
VIEWS: tuple[View, ...] = ("roles", "stages", "formulas")
LONGEST = 48  # characters of a line in a box


@dataclass(frozen=True, slots=True)
class Node:
    """A box. `kind` is its role (policy, env, signal, reward, stage ...); `lines` its text, the first the title."""

    name: str
    kind: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """What flows from one box to another; `both` when it flows back too, `loop` when it closes the training loop."""

    source: str
    target: str
    what: str = ""
    both: bool = False
    loop: bool = False


@dataclass(slots=True)
class Graph:
    """Boxes and edges, in the order in which they are told."""

    title: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def add(self, name: str, kind: str, *lines: str) -> str:
        """A box, unless it is there."""
        if all(n.name != name for n in self.nodes):
            self.nodes.append(Node(name, kind, tuple(piece for line in lines for piece in _wrapped(line))))
        return name

    def link(self, source: str, target: str, what: str = "", both: bool = False, loop: bool = False) -> None:
        """An edge; what flows between the same two boxes is one edge."""
        for place, edge in enumerate(self.edges):
            if (edge.source, edge.target, edge.both, edge.loop) == (source, target, both, loop):
                said = dict.fromkeys([*edge.what.split(", "), *what.split(", ")])
                self.edges[place] = Edge(source, target, ", ".join(filter(None, said)), both, loop)
                return
        self.edges.append(Edge(source, target, what, both, loop))


def graph_of(plan: Plan, view: View = "roles") -> Graph:
    """One view of a plan."""
    made = Graph(f"{plan.name}: {view}")
    {"roles": _roles, "stages": _stages, "formulas": _formulas}[view](plan, made)
    return made


def _wrapped(line: str) -> Iterator[str]:
    """A line in pieces that fit a box, broken at blanks where there are any."""
    rest = " ".join(line.split())
    while len(rest) > LONGEST:
        cut = rest.rfind(" ", LONGEST // 2, LONGEST + 1)
        cut = cut if cut > 0 else LONGEST
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    yield rest


# ----------------------------------------------------------------------------------------------------------- roles


def _roles(plan: Plan, graph: Graph) -> None:
    policy = graph.add("policy", "policy", f"policy {plan.policy.label}", plan.policy.name)
    shared = _shared(plan)
    for source in plan.sources:
        env = plan.labelled(source.env)
        share = f"{source.share:.3g} of the tasks" if len([s for s in plan.sources if s.share]) > 1 else ""
        if not source.share and source.stage is None:
            share = "not trained on"
        place = graph.add(f"env.{source.env}", "env", *filter(None, (f"env {source.env}", env.name, share)))
        graph.link(policy, place, "calls, results", both=True)
        if source.user is not None:
            user = plan.labelled(source.user)
            talker = graph.add(f"user.{source.user}", "user", f"user {source.user}", user.name)
            graph.link(talker, place, "serves")
        for label in source.judges:
            judge = graph.add(f"judge.{label}", "judge", f"judge {label}", plan.labelled(label).name)
            graph.link(place, judge, "dialogue")
        _scoring(plan, source, graph, shared)
    advantages = [e.source for e in graph.edges if e.target == "credit"]
    if advantages:
        where = " where ..." if plan.credit.where else ""
        names = ", ".join(dict.fromkeys(s.advantage for s in plan.sources))
        graph.add("credit", "credit", "credit", f"{plan.credit.to}({names}{where})")
        graph.link("credit", policy, "gradient", loop=True)


def _shared(plan: Plan) -> dict[tuple[str, str], bool]:
    """(kind, name) -> whether a formula is the same on all sources."""
    texts: dict[tuple[str, str], set[str]] = {}
    for source in plan.sources:
        for name, text in source.formulas.items():
            kind = "advantage" if name == source.advantage else "reward"
            texts.setdefault((kind, name), set()).add(f"{text} {source.ranges.get(name)}")
    return {key: len(found) == 1 for key, found in texts.items()}


def _scoring(plan: Plan, source: SourcePlan, graph: Graph, shared: dict[tuple[str, str], bool]) -> None:
    """Signals, rewards and advantage of a source. What sources have in common is one box."""

    def named(kind: str, name: str) -> str:
        alone = not shared.get((kind, name), True)
        suffix = f".{source.name}" if alone else ""
        on = f" on {source.name}" if alone else ""
        return graph.add(f"{kind}.{name}{suffix}", kind, f"{kind} {name}{on}", source.ranges.get(name, ""))

    owners = {source.env: f"env.{source.env}"}
    owners |= {source.user: f"user.{source.user}"} if source.user is not None else {}
    owners |= {label: f"judge.{label}" for label in source.judges}
    signals = {}
    for signal in source.signals:
        owner, _, measure = signal.measure.partition(".")
        box = graph.add(f"signal.{signal.name}", "signal", f"signal {signal.name}", f"@{signal.level}")
        if owner in owners:
            graph.link(owners[owner], box, measure)
        elif owner == plan.policy.label or owner == "policy":
            graph.link("policy", box, measure)
        signals[signal.name] = box
    rewards = {name: named("reward", name) for name in source.formulas if name != source.advantage}
    uses = _uses(source, [*rewards, source.advantage])
    for name, box in rewards.items():
        for used in uses[name]:
            graph.link(signals.get(used, rewards.get(used, "")), box)
    advantage = named("advantage", source.advantage)
    for used in uses[source.advantage]:
        graph.link(signals.get(used, rewards.get(used, "")), advantage)
    graph.link(advantage, "credit")


def _uses(source: SourcePlan, outputs: list[str]) -> dict[str, list[str]]:
    """Which inputs and other outputs each output of a program is made of, directly."""
    program = source.program
    places = {program.outputs[name]: name for name in reversed(outputs)}
    for name in outputs:  # a term with a minus is subtracted where it is used
        step = program.steps[program.outputs[name]]
        if step.op == "neg":
            places.setdefault(step.args[0], name)
    found: dict[str, list[str]] = {}
    for name in outputs:
        stack, seen = [program.outputs[name]], set()
        used: dict[str, None] = {}
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            if at in places and places[at] != name:
                used[places[at]] = None
            elif program.steps[at].op == "input":
                used[program.steps[at].attrs["name"]] = None
            else:
                stack.extend(reversed(program.steps[at].args))
        found[name] = list(used)
    return found


# ---------------------------------------------------------------------------------------------------------- stages


def _stages(plan: Plan, graph: Graph) -> None:
    stages = {s.label: s for s in plan.stages}
    budget = {b.stage: b for b in plan.budget}
    for edge in plan.graph.edges:
        ends = []
        for end in (edge.source, edge.target):
            label, _, role = end.partition("/")
            stage = stages.get(label)
            counts = ""
            if stage is not None and role in ("rollout", "trainer") and label in budget:
                one = budget[label]
                counts = f"{one.trajectories:,} trajectories x {one.steps:,}" if role == "rollout" else ""
            title = f"{label} : {stage.name}" if stage is not None else label
            ends.append(graph.add(end, role or "data", *filter(None, (title, role, counts))))
        back = edge.source.endswith("/trainer") and edge.target.partition("/")[0] == edge.source.partition("/")[0]
        graph.link(ends[0], ends[1], edge.what, loop=back)


# -------------------------------------------------------------------------------------------------------- formulas


def _formulas(plan: Plan, graph: Graph) -> None:
    alike: dict[str, list[SourcePlan]] = {}  # sources that read and compute the same are drawn once
    for source in plan.sources:
        alike.setdefault(repr((source.program, source.signals, source.formulas, source.terms)), []).append(source)
    for source, *others in alike.values():
        several = len(alike) > 1
        prefix = f"{source.name}." if several else ""
        on = f" on {', '.join(s.name for s in (source, *others))}" if several else ""
        kinds = {name: "advantage" if name == source.advantage else "reward" for name in source.formulas}
        program = source.program
        told = {program.outputs[name] for name in source.formulas}  # a term that is the whole formula, or a signal
        told |= {place for place, step in enumerate(program.steps) if step.op == "input"}
        terms = {t.output: t.text for t in source.terms if program.outputs[t.output] not in told}
        for signal in source.signals:
            graph.add(f"{prefix}{signal.name}", "signal", f"{signal.name}{on}", f"= {signal.measure} @{signal.level}")
        for name, text in terms.items():
            graph.add(f"{prefix}{name}", "term", _term(text))
        for name, kind in kinds.items():
            lines = (f"{kind} {name}{on}", f"= {bare_text(source.formulas[name])}", source.ranges.get(name, ""))
            graph.add(f"{prefix}{name}", kind, *lines)
        uses = _uses(source, [*terms, *kinds])
        for name, used in uses.items():
            for other in used:
                graph.link(f"{prefix}{other}", f"{prefix}{name}")


def _term(text: str) -> str:
    sign, blank, rest = text.partition(" ") if text.startswith("- ") else ("", "", text)
    return f"{sign}{blank}{bare_text(rest)}"
