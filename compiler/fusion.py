"""Fusion: a program as few nested loops, with nothing stored that can stay a scalar.

A program is first taken apart into *nodes*: elementwise values, and *folds* that gather a value over a pool (a zscore
is four folds and some arithmetic). Then every node gets a *time*, the earliest place in the nest of loops where all
that it needs is known:

    time = (pass over the groups, pass over a group's trajectories, ..., slot within the member itself)

Even passes run forwards and odd ones backwards; slot k of a member comes before pass k over the members below it.
Times compare like words in a dictionary: a node's time is the latest of its arguments', the result of a fold is known
in the slot before the next even pass. Nodes whose times share all passes share their loops; that is all the fusion
there is.

A value is stored in an array only when a later pass reads it and it is costly to compute again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from rlspec.compiler.levels import Level
from rlspec.compiler.parts import Node, Parts, Path
from rlspec.compiler.program import Program
from rlspec.dsl.dataclass import dataclass

FORWARD, BACKWARD = 0, 1  # a pass's parity
Time = tuple[int, ...]

COSTLY = 4
COST = {
    "div": 2,
    "pow": 12,
    "exp": 8,
    "log": 8,
    "cos": 8,
    "sqrt": 3,
    "lift": 0,
    "span": 0,
    "num": 0,
    "index": 0,
    "select": 2,
}


@dataclass(slots=True)
class Schedule:
    """Nodes in order, the body in which each is computed, and which output names which node."""

    nodes: list[Node]
    outputs: dict[str, int]
    uses: dict[tuple[int, Path], list[Path]]  # (node, body at the node's level) -> the bodies that mention it
    gathers: dict[int, Path]  # fold, scan, gae -> the body of its members
    slots: dict[int, int]  # rank, aligned -> the slot of its scope


def schedule(program: Program) -> Schedule:
    """Plan the loops of a program.

    Raises:
        ValueError: the program is not well formed.
    """
    parts = Parts(program)
    nodes = parts.nodes
    when, inner, costs = *times(nodes), _costs(nodes)
    plan = Schedule(nodes, parts.outputs, defaultdict(list), {}, {})
    named = set(plan.outputs.values())
    whole = {n.args[0] for n in nodes if n.kind in ("rank", "aligned")}
    wanted: dict[int, set[Path]] = defaultdict(set)

    def demand(args: Iterable[int], body: Path) -> None:
        for a in args:
            own = body[: max(nodes[a].level - Level.STEP, 0)]
            wanted[a].add(own)
            plan.uses[a, own].append(body)

    for at in reversed(range(len(nodes))):
        node, first = nodes[at], when[at][:-1]
        if not wanted[at] and at not in named and at not in whole:
            continue
        if node.kind == "elem":
            bodies = wanted[at] | ({first} if at in named or at in whole else set())
            again = len(bodies) > 1 and costs[at] >= COSTLY and node.level > Level.STEP
            node.stored = at in named or at in whole or again
            node.bodies = {min(bodies)} if node.stored else bodies
            node.home = min(bodies) if node.stored else None
            for body in node.bodies:
                demand(node.args, body)
        elif node.kind in ("fold", "scan", "gae"):
            plan.gathers[at] = inner[at][:-1]
            node.home, node.bodies = first, {first}
            node.stored = at in named or at in whole or any(body != first for body in wanted[at])
            demand(node.args, inner[at][:-1])
        elif node.kind in ("rank", "aligned"):
            assert node.pool is not None
            scope = node.pool.scope - Level.STEP
            node.home, node.bodies, node.stored = first[:scope], {first[:scope]}, True
            plan.slots[at] = when[at][scope]
    _share(plan, whole)
    return plan


def times(nodes: list[Node]) -> tuple[list[Time], list[Time]]:
    """The time of every node, and the time at which its pool's members are visited; see the module."""
    known: list[Time] = []
    visited: list[Time] = []
    for node in nodes:
        time = _latest((known[a] for a in node.args), node.pool.member if node.pool else node.level)
        if node.pool is not None:
            scope = node.pool.scope - Level.STEP
            if node.op in ("suffix_sum", "gae"):
                time = _turned(time, scope, BACKWARD)
            elif node.op in ("first", "last", "prefix_sum"):
                time = _turned(time, scope, FORWARD)
        visited.append(time)
        if node.kind == "fold":
            time = (*time[:scope], after(time[scope]))
        elif node.kind in ("rank", "aligned"):
            complete = _complete(nodes[node.args[0]], node, time[scope + 1 :])
            slot = time[scope] if complete else after(time[scope])
            time = (*time[:scope], slot) + (0,) * (len(time) - scope - 1)
        known.append(time)
    return known, visited


def after(turn: int) -> int:
    """The first slot after a pass that is followed by a pass forwards."""
    return (turn // 2 + 1) * 2


def _turned(time: Time, scope: int, parity: int) -> Time:
    """The earliest time, not before this one, whose passes below the scope all run in one direction."""
    found = list(time)
    for depth in range(scope, len(time) - 1):
        if found[depth] % 2 != parity:
            found[depth] += 1
            found[depth + 1 :] = [parity] * (len(time) - depth - 2) + [0]
            break
    return tuple(found)


def _complete(source: Node, node: Node, below: Time) -> bool:
    """Whether the source's array is there before any pass over the node's pool."""
    assert node.pool is not None
    early = source.pool is not None and source.pool.scope <= node.pool.scope and source.kind in ("rank", "aligned")
    return (source.kind == "input" or early) and not any(below)


def _latest(args: Iterable[Time], level: Level) -> Time:
    length = max(level - Level.STEP + 1, 1)
    return max(((t + (0,) * length)[:length] for t in args), default=(0,) * length)


def _costs(nodes: list[Node]) -> list[int]:
    """What computing a value again costs, in additions. A costly argument that others use too will itself be
    stored."""
    uses = Counter(a for node in nodes for a in set(node.args))
    costs: list[int] = []
    for node in nodes:
        again = (a for a in set(node.args) if nodes[a].level is node.level)
        inner = sum(costs[a] for a in again if costs[a] < COSTLY or uses[a] == 1)
        costs.append(COST.get(node.op, 1) + inner if node.kind == "elem" else 0)
    return costs


def _share(plan: Schedule, whole: set[int]) -> None:
    """Let a stored value live in the array of an elementwise output of its level that is written last, at the
    same position that is then read last."""
    readers: dict[int, list[tuple[Path, int]]] = defaultdict(list)
    for at, node in enumerate(plan.nodes):
        where = [plan.gathers[at]] if at in plan.gathers else node.bodies
        for a in node.args:
            readers[a].extend((body, at) for body in where)

    def before(reader: int, out: int, home: Path) -> bool:
        """Everything that this reader's value goes into, in the body that writes the output, goes into the
        output."""
        if reader >= out:
            return reader == out
        return all(before(c, out, home) for body, c in readers[reader] if body[: len(home)] == home)

    named = set(plan.outputs.values())
    free = {at: name for name, at in plan.outputs.items() if plan.nodes[at].kind == "elem"}
    for at, node in enumerate(plan.nodes):
        if not node.stored or at in named or at in whole or node.level <= Level.STEP:
            continue
        for out, name in free.items():
            home = plan.nodes[out].home
            if plan.nodes[out].level is not node.level or home is None or out <= at or node.home == home:
                continue
            if all(
                body[: len(home)] < home or (body == home and before(reader, out, home)) for body, reader in readers[at]
            ):
                node.shares = name
                del free[out]
                break
