"""Places for the boxes of a graph: layers from top to bottom, few crossings, no overlaps.

Sugiyama's method in its plain form (K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical
system structures", 1981): edges that go back are turned round, boxes are ranked by the longest path, long edges get a
place in every layer that they cross, layers are ordered by the mean of their neighbours, and places are pulled towards
their neighbours without passing each other. The text on an edge has a place of its own in the layer between two boxes,
so it covers nothing. All numbers are pixels.
"""

from __future__ import annotations

import unicodedata
from dataclasses import field
from itertools import pairwise

from rlspec.compiler.showing.graph import Graph
from rlspec.dsl.dataclass import dataclass

SIZE = 13.0  # of the type
ADVANCE = 0.602 * SIZE  # of a character of a monospaced type
LEADING = 1.35 * SIZE
PAD_X, PAD_Y = 10.0, 7.0
GAP_X, GAP_Y = 26.0, 20.0
LINE_GAP = 14.0  # between an edge that passes and what stands beside it
MARGIN = 12.0
SWEEPS = 24


@dataclass(slots=True)
class Box:
    """A box, or the place of an edge in a layer (then `name` is empty); `x` and `y` are its centre."""

    name: str
    width: float
    height: float
    lines: tuple[str, ...] = ()
    kind: str = ""
    rank: int = 0
    band: tuple[float, float] = (0.0, 0.0)  # upper and lower end of its layer
    x: float = 0.0
    y: float = 0.0

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


@dataclass(slots=True)
class Path:
    """An edge: the points that it goes through, from its source's border to its target's; where its text stands."""

    source: str
    target: str
    what: str
    both: bool
    loop: bool
    points: list[tuple[float, float]] = field(default_factory=list)
    label: Box | None = None


@dataclass(slots=True)
class Drawing:
    """Everything placed."""

    width: float
    height: float
    boxes: list[Box]
    paths: list[Path]


def text_width(text: str) -> float:
    """Of one line in a monospaced type: wide characters count twice, marks that stand on others not at all."""
    cells = sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )  # fmt: skip
    return cells * ADVANCE


def laid_out(graph: Graph) -> Drawing:
    """Places for all boxes and edges."""
    boxes = {n.name: _box(n.name, n.lines, n.kind) for n in graph.nodes}
    if not boxes:
        return Drawing(2 * MARGIN, 2 * MARGIN, [], [])
    arcs = [(e.source, e.target) for e in graph.edges]
    turned = _turned(arcs, [e.loop for e in graph.edges])
    _rank(boxes, [(t, s) if back else (s, t) for (s, t), back in zip(arcs, turned, strict=True)])
    layers: list[list[Box]] = [[] for _ in range(2 * max(b.rank for b in boxes.values()) + 1)]
    for box in boxes.values():
        box.rank *= 2
        layers[box.rank].append(box)
    chains = [
        _chain(boxes[t if back else s], boxes[s if back else t], e.what, layers)
        for (s, t), back, e in zip(arcs, turned, graph.edges, strict=True)
    ]
    links = [pair for chain in chains for pair in pairwise(chain)]
    _order(layers, links)
    _across(layers, links)
    _down(layers)
    every = [b for layer in layers for b in layer]
    shift = MARGIN - min(b.left for b in every)
    for box in every:
        box.x += shift
    paths = []
    for edge, back, chain in zip(graph.edges, turned, chains, strict=True):
        points = _points(chain, chains)
        label = next((b for b in chain[1:-1] if b.lines), None)  # its text interrupts the line
        turn = list(reversed(points)) if back else points
        paths.append(Path(edge.source, edge.target, edge.what, edge.both, edge.loop, turn, label))
    width = max(b.right for b in every) + MARGIN
    return Drawing(width, max(b.bottom for b in every) + MARGIN, list(boxes.values()), paths)


def _box(name: str, lines: tuple[str, ...], kind: str) -> Box:
    width = max((text_width(line) for line in lines), default=0.0) + 2 * PAD_X
    return Box(name, width, len(lines) * LEADING + 2 * PAD_Y, lines, kind)


# ---------------------------------------------------------------------------------------------------------- layers


def _turned(arcs: list[tuple[str, str]], loops: list[bool]) -> list[bool]:
    """Which edges are turned round so that no circle is left. One by one, in the order in which they are told and those
    that close a loop last, each takes the direction that it should have unless that would close a circle."""
    turned = list(loops)
    laid: list[tuple[str, str]] = []
    for place in sorted(range(len(arcs)), key=lambda i: loops[i]):
        source, target = arcs[place]
        if source == target:
            continue
        upper, lower = (target, source) if loops[place] else (source, target)
        if _reaches(laid, lower, upper):
            turned[place], upper, lower = not turned[place], lower, upper
        laid.append((upper, lower))
    return turned


def _reaches(edges: list[tuple[str, str]], start: str, goal: str) -> bool:
    stack, seen = [start], set()
    while stack:
        at = stack.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            stack += [t for s, t in edges if s == at]
    return False


def _rank(boxes: dict[str, Box], arcs: list[tuple[str, str]]) -> None:
    """The longest path from the top; a source then sinks to just above its nearest target."""
    for _ in range(len(boxes)):
        moved = False
        for source, target in arcs:
            if source != target and boxes[target].rank < boxes[source].rank + 1:
                boxes[target].rank, moved = boxes[source].rank + 1, True
        if not moved:
            break
    for name, box in boxes.items():
        below = [boxes[t].rank for s, t in arcs if s == name and t != name]
        if below and not any(t == name for s, t in arcs if s != name):
            box.rank = max(box.rank, min(below) - 1)


def _chain(start: Box, stop: Box, what: str, layers: list[list[Box]]) -> list[Box]:
    """The places of an edge from layer to layer, with its text in the middle one."""
    if start is stop:
        return [start, stop]
    between = range(start.rank + 1, stop.rank)
    middle = between[0] if len(between) == 1 else between[(len(between) // 4) * 2]
    chain = [start]
    for rank in between:
        lines = (what,) if what and rank == middle else ()
        width = text_width(what) + 8.0 if lines else 0.0
        place = Box("", width, LEADING if lines else 0.0, lines, rank=rank)
        layers[rank].append(place)
        chain.append(place)
    return [*chain, stop]


def _order(layers: list[list[Box]], links: list[tuple[Box, Box]]) -> None:
    """Few crossings: each layer by the mean place of its neighbours, down and up again; the best order is kept."""
    above: dict[int, list[Box]] = {}
    below: dict[int, list[Box]] = {}
    for a, b in links:
        above.setdefault(id(b), []).append(a)
        below.setdefault(id(a), []).append(b)
    best, least = [list(layer) for layer in layers], _crossings(layers, links)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else reversed(layers):
            place = {id(b): i for other in layers for i, b in enumerate(other)}
            keys = {
                id(b): sum(place[id(n)] for n in found) / len(found) if (found := near.get(id(b))) else place[id(b)]
                for b in layer
            }
            layer.sort(key=lambda b: keys[id(b)])
        crossings = _crossings(layers, links)
        if crossings < least:
            best, least = [list(layer) for layer in layers], crossings
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept


def _crossings(layers: list[list[Box]], links: list[tuple[Box, Box]]) -> int:
    place = {id(b): i for layer in layers for i, b in enumerate(layer)}
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for a, b in links:
        by_rank.setdefault(a.rank, []).append((place[id(a)], place[id(b)]))
    return sum(
        (a - c) * (b - d) < 0
        for pairs in by_rank.values()
        for i, (a, b) in enumerate(pairs)
        for c, d in pairs[i + 1 :]
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- places


def _gap(a: Box, b: Box) -> float:
    """The least distance of two centres side by side."""
    return (a.width + b.width) / 2 + (GAP_X if a.name and b.name else LINE_GAP)


def _across(layers: list[list[Box]], links: list[tuple[Box, Box]]) -> None:
    """Centres, pulled towards those of their neighbours; nothing passes anything."""
    near: dict[int, list[Box]] = {}
    for a, b in links:
        near.setdefault(id(a), []).append(b)
        near.setdefault(id(b), []).append(a)
    for layer in layers:
        for before, box in pairwise(layer):
            box.x = before.x + _gap(before, box)
        middle = (layer[0].x + layer[-1].x) / 2 if layer else 0.0
        for box in layer:
            box.x -= middle
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [
                sum(n.x for n in found) / len(found) if (found := near.get(id(b))) else b.x
                for b in layer
            ]  # fmt: skip
            _settle(layer, wanted)


def _settle(layer: list[Box], wanted: list[float]) -> None:
    """The places nearest to those that are wanted, in order and with room between: neighbours that would overlap form
    a block, which goes to the mean of what its members want."""
    offsets = [0.0]
    for before, box in pairwise(layer):
        offsets.append(offsets[-1] + _gap(before, box))
    blocks: list[tuple[float, int]] = []  # (mean of wanted - offset, members)
    for want, offset in zip(wanted, offsets, strict=True):
        blocks.append((want - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2], blocks[-1]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    place = 0
    for start, members in blocks:
        for _ in range(members):
            layer[place].x = start + offsets[place]
            place += 1


def _down(layers: list[list[Box]]) -> None:
    top = MARGIN
    for layer in layers:
        height = max((b.height for b in layer), default=0.0)
        for box in layer:
            box.y, box.band = top + height / 2, (top, top + height)
        top += height + GAP_Y


def _points(chain: list[Box], chains: list[list[Box]]) -> list[tuple[float, float]]:
    """From the lower border of the upper box to the upper border of the lower one; edges of one border share it."""
    start, stop = chain[0], chain[-1]
    if start is stop:  # a loop at one box
        return [(start.right, start.y - 6), (start.right + 18, start.y), (start.right, start.y + 6)]
    leaving = sorted((c for c in chains if c[0] is start and c[-1] is not start), key=lambda c: c[1].x)
    coming = sorted((c for c in chains if c[-1] is stop and c[0] is not stop), key=lambda c: c[-2].x)
    out, into = _port(start, leaving.index(chain), len(leaving)), _port(stop, coming.index(chain), len(coming))
    first = [(out, start.bottom), (out, start.band[1])]  # straight as far as its layer goes: there are other boxes
    last = [(into, stop.band[0]), (into, stop.top)]
    inner = [(b.x, y) for b in chain[1:-1] for y in b.band]
    points = [*first, *inner, *last]
    return [points[0], *(p for before, p in pairwise(points) if abs(p[0] - before[0]) + abs(p[1] - before[1]) > 1e-6)]


def _port(box: Box, place: int, count: int) -> float:
    inside = min(box.width - 2 * PAD_X, 36.0 * (count - 1))
    return box.x + (inside * (place / (count - 1) - 0.5) if count > 1 else 0.0)
