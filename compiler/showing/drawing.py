"""A graph as SVG, as Mermaid and as DOT. Names and texts of a spec are escaped in all three."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

from rlspec.compiler.showing.graph import Graph
from rlspec.compiler.showing.layout import LEADING, PAD_Y, SIZE, Drawing, Path, laid_out

COLOURS = {  # kind -> (fill, line) on white; dark pages turn both by `_DARK`
    "policy": ("#dbeafe", "#1d4ed8"), "env": ("#dcfce7", "#15803d"), "user": ("#fef3c7", "#a16207"),
    "judge": ("#fae8ff", "#a21caf"), "signal": ("#f1f5f9", "#475569"), "term": ("#f1f5f9", "#475569"),
    "reward": ("#ffedd5", "#c2410c"), "advantage": ("#fee2e2", "#b91c1c"), "credit": ("#ede9fe", "#6d28d9"),
    "rollout": ("#dcfce7", "#15803d"), "scorer": ("#ffedd5", "#c2410c"), "trainer": ("#dbeafe", "#1d4ed8"),
    "report": ("#f1f5f9", "#475569"), "data": ("#fef3c7", "#a16207"),
}  # fmt: skip
PLAIN = ("#f8fafc", "#475569")
_DARK = {"#dbeafe": "#17233d", "#dcfce7": "#132a1c", "#fef3c7": "#2f2611", "#fae8ff": "#2d1731", "#f1f5f9": "#1e2329",
         "#ffedd5": "#331e10", "#fee2e2": "#331615", "#ede9fe": "#221a38", "#f8fafc": "#1e2329"}  # fmt: skip
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def svg(graph: Graph) -> str:
    """A drawing that stands alone or within a page: no script, no font and nothing else from outside."""
    drawn = laid_out(graph)
    parts = [*(_path(p) for p in drawn.paths), *_boxes(drawn), *(_label(p) for p in drawn.paths)]
    width, height = round(drawn.width, 1), round(drawn.height, 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rlspec-graph" role="img" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}">\n<title>{_text(graph.title)}</title>\n{_style()}\n'
        + "\n".join(p for p in parts if p)
        + "\n</svg>\n"
    )


def _style() -> str:
    every = {**COLOURS, "plain": PLAIN}
    kinds = "".join(f".rlspec-graph .{kind}{{fill:{fill};stroke:{line}}}" for kind, (fill, line) in every.items())
    dark = "".join(f".rlspec-graph .{kind}{{fill:{_DARK[fill]}}}" for kind, (fill, _) in every.items())
    return (
        "<style>.rlspec-graph{color:#1a1a1a}"
        f".rlspec-graph text{{font:{SIZE:g}px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
        "fill:currentColor;stroke:none;white-space:pre}.rlspec-graph .what{fill:#595f66}"
        ".rlspec-graph .edge{fill:none;stroke:#7b838c;stroke-width:1.3}.rlspec-graph .loop{stroke-dasharray:5 4}"
        f".rlspec-graph .tip{{fill:#7b838c;stroke:none}}{kinds}"
        "@media (prefers-color-scheme:dark){.rlspec-graph{color:#e6e6e6}.rlspec-graph .what{fill:#a3abb5}"
        f"{dark}}}@media print{{.rlspec-graph{{color:#000}}}}</style>"
    )


def _boxes(drawn: Drawing) -> list[str]:
    out = []
    for box in drawn.boxes:
        kind = box.kind if box.kind in COLOURS else "plain"
        out.append(
            f'<rect class="{kind}" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="5"/>'
        )
        for number, line in enumerate(box.lines):
            y = box.top + PAD_Y + (number + 0.75) * LEADING
            weight = ' font-weight="bold"' if number == 0 and len(box.lines) > 1 else ""
            out.append(f'<text x="{box.x:.1f}" y="{y:.1f}" text-anchor="middle"{weight}>{_text(line)}</text>')
    return out


def _path(path: Path) -> str:
    """A smooth line through the points, with a tip at its end (and at its beginning when it flows both ways)."""
    points = path.points
    at = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    silent = None if path.label is None else {(path.label.x, y) for y in path.label.band}
    for (x, y), (u, v) in pairwise(points):
        half = (y + v) / 2
        if {(x, y), (u, v)} == silent:
            at += f" M{u:.1f},{v:.1f}"  # here stands the text
        elif x == u:
            at += f" L{u:.1f},{v:.1f}"
        else:
            at += f" C{x:.1f},{half:.1f} {u:.1f},{half:.1f} {u:.1f},{v:.1f}"
    loop = " loop" if path.loop else ""
    side = path.source == path.target
    tips = _tip(points[-2], points[-1], side) + (_tip(points[1], points[0], side) if path.both else "")
    return f'<path class="edge{loop}" d="{at}"/>{tips}'


def _tip(before: tuple[float, float], end: tuple[float, float], side: bool) -> str:
    """Edges come in from above or below, a loop at one box from its right side."""
    x, y = end
    if side:
        return f'<path class="tip" d="M{x:.1f},{y:.1f} l6,-3.5 v7 z"/>'
    rise = 7 if before[1] > y else -7
    return f'<path class="tip" d="M{x:.1f},{y:.1f} l-3.5,{rise} h7 z"/>'


def _label(path: Path) -> str:
    box = path.label
    if box is None:
        return ""
    y = box.y + 0.33 * SIZE
    return f'<text class="what" x="{box.x:.1f}" y="{y:.1f}" text-anchor="middle">{_text(path.what)}</text>'


def _text(text: str) -> str:
    return escape(_UNPRINTABLE.sub("\ufffd", text))


# ------------------------------------------------------------------------------------------------- Mermaid and DOT


def mermaid(graph: Graph) -> str:
    """A Mermaid flowchart, as Markdown viewers draw it."""
    names = {node.name: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes:
        shown = "<br/>".join(_mermaid_text(line) for line in node.lines)
        lines.append(f'  {names[node.name]}["{shown}"]:::{node.kind if node.kind in COLOURS else "plain"}')
    for edge in graph.edges:
        arrow = "<-->" if edge.both else "-.->" if edge.loop else "-->"
        told = f'|"{_mermaid_text(edge.what)}"|' if edge.what else ""
        lines.append(f"  {names[edge.source]} {arrow}{told} {names[edge.target]}")
    used = dict.fromkeys(n.kind if n.kind in COLOURS else "plain" for n in graph.nodes)
    for kind in used:
        fill, line = COLOURS.get(kind, PLAIN)
        lines.append(f"  classDef {kind} fill:{fill},stroke:{line},color:#1a1a1a")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Text within quotes: what means something to Mermaid, Markdown or HTML goes as a number."""
    clean = _UNPRINTABLE.sub("\ufffd", " ".join(text.split()))
    return "".join(c if c.isalnum() or c in " .,:/()[]{}=+-@%?" else f"#{ord(c)};" for c in clean)


def dot(graph: Graph) -> str:
    """A graph for Graphviz."""
    lines = [
        f"digraph {_quoted(graph.title)} {{",
        '  graph [rankdir=TB]; node [shape=box, style="rounded,filled", fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=10, color="#7b838c"];',
    ]
    for node in graph.nodes:
        fill, line = COLOURS.get(node.kind, PLAIN)
        shown = _quoted("\n".join(node.lines))
        lines.append(f'  {_quoted(node.name)} [label={shown}, fillcolor="{fill}", color="{line}"];')
    for edge in graph.edges:
        told = [f"label={_quoted(edge.what)}"] if edge.what else []
        told += ["dir=both"] * edge.both + ["style=dashed", "constraint=false"] * edge.loop
        attributes = f" [{', '.join(told)}]" if told else ""
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{attributes};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    clean = _UNPRINTABLE.sub("\ufffd", text.replace("\r", " "))
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
