"""Plans as graphs, and graphs as drawings: nothing overlaps, edges end where they should, texts stay texts."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.compiler.showing.drawing import dot, mermaid, svg
from rlspec.compiler.showing.graph import VIEWS, Edge, Graph, Node, graph_of
from rlspec.compiler.showing.layout import Box, Drawing, laid_out, text_width
from rlspec.dsl.diagnostics import Source

ROOT = Path(__file__).parents[3]
SPECS = sorted([*ROOT.glob("specs/papers/*.rlspec"), *ROOT.glob("examples/*.rlspec"), ROOT / "tests" / "mini.rlspec"])
SVG = "{http://www.w3.org/2000/svg}"


def plan_of(path: Path) -> Plan:
    found = check(Source(str(path), path.read_text()))
    assert found.plan is not None
    return found.plan


def flows(graph: Graph) -> set[tuple[str, str]]:
    return {(e.source, e.target) for e in graph.edges}


# ---------------------------------------------------------------------------------------------------------- content


def test_roles_lead_from_what_is_measured_to_what_is_learned_from() -> None:
    found = flows(graph_of(plan_of(ROOT / "specs" / "papers" / "tarl.rlspec"), "roles"))
    way = ["env.retail", "judge.turns", "signal.verdict", "reward.R.retail", "advantage.A", "credit", "policy"]
    assert set(pairwise(way)) <= found
    assert {("policy", "env.math"), ("user.customer", "env.retail"), ("env.math", "signal.outcome")} <= found
    assert ("signal.verdict", "reward.R.math") not in found
    assert ("user.customer", "env.math") not in found


def test_stages_show_what_flows_between_them() -> None:
    graph = graph_of(plan_of(ROOT / "tests" / "mini.rlspec"), "stages")
    what = {(e.source, e.target): e.what for e in graph.edges}
    assert what["coldstart/trainer", "train/trainer"] == "weights"
    assert what["train/rollout", "train/scorer"] == "trajectories"
    assert [e.target for e in graph.edges if e.loop] == ["train/rollout"]
    assert any("16 trajectories x 5" in n.lines for n in graph.nodes)


def test_formulas_go_over_their_terms_also_those_with_a_minus() -> None:
    found = flows(graph_of(plan_of(ROOT / "tests" / "mini.rlspec"), "formulas"))
    assert {("verdict", "R_term2"), ("R_term2", "R"), ("outcome", "R"), ("R", "A")} <= found
    assert ("verdict", "R") not in found


def test_what_is_the_same_for_recovery_groups_is_drawn_once() -> None:
    text = (ROOT / "tests" / "mini.rlspec").read_text()
    text = text.replace("  stage held_out", "  stage fission : resample { within = train }\n  stage held_out")
    plan = check(Source("mini", text)).plan
    assert plan is not None
    assert [s.stage for s in plan.sources] == [None, "fission"]
    assert [n.name for n in graph_of(plan, "formulas").nodes].count("R") == 1
    talks = next(e for e in graph_of(plan, "roles").edges if e.both)
    assert talks.what == "calls, results"


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
@pytest.mark.parametrize("view", VIEWS)
def test_every_edge_has_its_boxes(path: Path, view: str) -> None:
    graph = graph_of(plan_of(path), view)  # type: ignore[arg-type]
    names = [n.name for n in graph.nodes]
    assert len(set(names)) == len(names)
    assert {end for pair in flows(graph) for end in pair} <= set(names)
    told = laid_out(graph)
    sound(graph, told)


# ----------------------------------------------------------------------------------------------------------- layout


def apart(a: Box, b: Box) -> bool:
    return a.right <= b.left + 1e-6 or b.right <= a.left + 1e-6 or a.bottom <= b.top + 1e-6 or b.bottom <= a.top + 1e-6


def on_border(point: tuple[float, float], box: Box) -> bool:
    x, y = point
    across = box.left - 1e-6 <= x <= box.right + 1e-6 and min(abs(y - box.top), abs(y - box.bottom)) < 1e-6
    return across or (abs(x - box.right) < 1e-6 and box.top <= y <= box.bottom)


def along(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points on the smooth line that is drawn through `points`: between two of them y goes evenly at the ends."""
    out = []
    for (x, y), (u, v) in pairwise(points):
        for k in range(1, 12):
            t = k / 12
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            half = (y + v) / 2
            out.append((a * x + b * x + c * u + d * u, a * y + b * half + c * half + d * v))
    return out


def sound(graph: Graph, told: Drawing) -> None:
    boxes = {b.name: b for b in told.boxes}
    assert set(boxes) == {n.name for n in graph.nodes}
    everything = [*told.boxes, *(p.label for p in told.paths if p.label is not None)]
    for i, a in enumerate(everything):
        assert a.left >= 0
        assert a.top >= 0
        assert a.right <= told.width
        assert a.bottom <= told.height
        assert all(text_width(line) <= a.width for line in a.lines)
        assert all(apart(a, b) for b in everything[i + 1 :])
    for path in told.paths:
        assert on_border(path.points[0], boxes[path.source])
        assert on_border(path.points[-1], boxes[path.target])
        assert (path.label is not None) == bool(path.what and path.source != path.target)
        for x, y in along(path.points) if path.source != path.target else ():
            assert not any(b.left < x < b.right and b.top + 1e-6 < y < b.bottom - 1e-6 for b in told.boxes)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 9))
    texts = st.text(alphabet='abc 漢é<&"', max_size=25)
    kinds = st.sampled_from(["policy", "env", "reward", "unheard_of"])
    lines = st.lists(texts, min_size=1, max_size=4).map(tuple)
    nodes = [Node(f"n{i}", draw(kinds), draw(lines)) for i in range(count)]
    ends = st.integers(0, count - 1)
    edges = draw(
        st.lists(st.tuples(ends, ends, texts, st.booleans(), st.booleans()), max_size=14, unique_by=lambda e: e[:2])
    )
    return Graph("a graph", nodes, [Edge(f"n{a}", f"n{b}", what, both, loop) for a, b, what, both, loop in edges])


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_nothing_overlaps_and_edges_end_at_their_boxes(graph: Graph) -> None:
    sound(graph, laid_out(graph))


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_all_three_forms_are_well_formed(graph: Graph) -> None:
    root = ElementTree.fromstring(svg(graph))
    assert len(root.findall(f"{SVG}rect")) == len(graph.nodes)
    assert len([p for p in root.findall(f"{SVG}path") if p.attrib["class"].startswith("edge")]) == len(graph.edges)
    boxes = [[float(r.attrib[k]) for k in ("x", "y", "width", "height")] for r in root.findall(f"{SVG}rect")]
    for tip in [p.attrib["d"] for p in root.findall(f"{SVG}path") if p.attrib["class"] == "tip"]:
        x, y, right, down = (float(n) for n in re.findall(r"-?[0-9.]+", tip)[:4])
        x, y = x + right + 3.5, y + down  # the middle of its base, which no box hides
        assert right > 0 or not any(a < x < a + w and b < y < b + h for a, b, w, h in boxes)
    reads_as_mermaid(graph, mermaid(graph))
    reads_as_dot(graph, dot(graph))


def test_the_drawing_of_a_plan_is_the_same_every_time() -> None:
    plan = plan_of(ROOT / "specs" / "papers" / "tarl.rlspec")
    assert svg(graph_of(plan)) == svg(graph_of(Plan.model_validate_json(plan.model_dump_json())))


# ------------------------------------------------------------------------------------------------------------ texts

MERMAID = {
    "head": r"flowchart TD",
    "box": r'  n\d+\["(?:[^"#<>`]|#\d+;|<br/>)*"\]:::\w+',
    "edge": r'  n\d+ (?:-->|<-->|-\.->)(?:\|"(?:[^"#<>`]|#\d+;)*"\|)? n\d+',
    "class": r"  classDef \w+ fill:#[0-9a-f]{6},stroke:#[0-9a-f]{6},color:#[0-9a-f]{6}",
}
WORD = r'"(?:[^"\\\n]|\\.)*"'
DOT = {
    "head": rf"digraph {WORD} \{{",
    "defaults": r"  (?:graph|edge) \[.*\];(?: node \[.*\];)?|  graph \[rankdir=TB\]; node \[.*\];",
    "box": rf"  {WORD} \[label={WORD}, fillcolor={WORD}, color={WORD}\];",
    "edge": rf"  {WORD} -> {WORD}(?: \[[^\n]*\])?;",
    "end": r"\}",
}


def kinds_of(text: str, grammar: dict[str, str]) -> list[str]:
    """The kind of each line; a line of no kind fails."""
    out = []
    for line in text.rstrip("\n").split("\n"):
        found = [kind for kind, pattern in grammar.items() if re.fullmatch(pattern, line)]
        assert found, f"no line of the language: {line!r}"
        out.append(found[0])
    return out


def reads_as_mermaid(graph: Graph, text: str) -> None:
    kinds = kinds_of(text, MERMAID)
    assert kinds[0] == "head"
    assert (kinds.count("box"), kinds.count("edge")) == (len(graph.nodes), len(graph.edges))
    used = set(re.findall(r":::(\w+)", text))
    assert used == set(re.findall(r"classDef (\w+)", text))


def reads_as_dot(graph: Graph, text: str) -> None:
    kinds = kinds_of(text, DOT)
    assert (kinds[0], kinds[-1]) == ("head", "end")
    assert (kinds.count("box"), kinds.count("edge")) == (len(graph.nodes), len(graph.edges))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_plans_read_as_mermaid_and_dot(path: Path) -> None:
    plan = plan_of(path)
    for view in VIEWS:
        graph = graph_of(plan, view)
        reads_as_mermaid(graph, mermaid(graph))
        reads_as_dot(graph, dot(graph))


def test_a_hostile_label_is_only_text() -> None:
    words = 'x"]; click n0 "javascript:alert(1)" `**b**` <script>alert(1)</script> #35; \\"'
    graph = Graph(words, [Node("a", "env", (words,)), Node("b", "env", ("b",))], [Edge("a", "b", words)])
    reads_as_mermaid(graph, mermaid(graph))
    reads_as_dot(graph, dot(graph))
    root = ElementTree.fromstring(svg(graph))
    assert words in [t.text for t in root.iter(f"{SVG}text")]
    assert not root.findall(f".//{SVG}script")
    assert re.search(r'label="x\\"\];', dot(graph))


def test_a_long_line_is_broken_within_its_box() -> None:
    graph = Graph("t")
    graph.add("a", "env", "word " * 40, "x" * 130)
    assert max(map(len, graph.nodes[0].lines)) <= 48
    assert "".join(graph.nodes[0].lines).count("x") == 130
