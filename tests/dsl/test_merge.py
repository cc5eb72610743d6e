"""Three-way merge: laws on random edits, conflicts at the smallest item, and no comment lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlspec.dsl.diagnostics import Source
from rlspec.dsl.format import formatted, same_tree
from rlspec.dsl.merge import Merged, merge
from rlspec.dsl.parser import parse
from rlspec.dsl.printer import text_of
from rlspec.dsl.tree import Item

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()


def merged(base: str, ours: str, theirs: str) -> Merged:
    return merge(Source("base", base), Source("ours", ours), Source("theirs", theirs))


def changed(*pairs: tuple[str, str], text: str = SAMPLE) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def said(text: str) -> dict[str, str]:
    """What a file says: path -> value or head."""
    out: dict[str, str] = {}

    def walk(items: tuple[Item, ...], path: str) -> None:
        for item in items:
            here = f"{path}/{text_of(item.head)}"
            out[here] = text_of(item.value) if item.value is not None else "{}"
            walk(item.body or (), here)

    file, problems = parse(Source("", text))
    assert problems == []
    walk(file.items, "")
    return out


# Edits that touch different items: any two sets of them that share none can be merged.
EDITS = [
    ("width = 64", "width = 96"),
    ("layers = 3", "layers = 4"),
    ("changes_mind = 70%", "changes_mind = 70%  patience = 5agent_turns"),
    ("flip = 5%", "flip = 6%  cascade = 1%"),
    ("lr = 4e-3", "lr = 5e-3"),
    ("    lr = 3e-4  clip_low", "    lr = 1e-4  clip_low"),
    ("temperature = 1.0", "temperature = 0.9  # cooler\n   "),
    ("  checkpoint_every = 20steps", ""),
    ("phrasing = held_out", "phrasing = train"),
    ("      - 0.1 * indicator", "      - 0.2 * indicator"),
    ('  title = "A shop', '  # a new comment\n  title = "Another shop'),
    ("  stage coldstart", '  note = "added"\n\n  stage coldstart'),
    ("  credit = agent_tokens(A)\n", "  credit = agent_tokens(A)\n  let late : real@traj = indicator(num(turn) > 9)\n"),
    ("experiment sample", "experiment renamed"),
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(["base", "ours", "theirs", "both"]), min_size=len(EDITS), max_size=len(EDITS)))
def test_edits_of_different_items_are_all_there(owners: list[str]) -> None:
    mine = [e for e, owner in zip(EDITS, owners, strict=True) if owner in ("ours", "both")]
    yours = [e for e, owner in zip(EDITS, owners, strict=True) if owner in ("theirs", "both")]
    wanted = changed(*[e for e, owner in zip(EDITS, owners, strict=True) if owner != "base"])
    ours, theirs = changed(*mine), changed(*yours)
    one, other = merged(SAMPLE, ours, theirs), merged(SAMPLE, theirs, ours)
    assert one.conflicts == other.conflicts == ()
    assert said(one.text) == said(other.text) == said(wanted)
    for text in (one.text, other.text):
        assert sorted(re.findall(r"#.*", text)) == sorted(re.findall(r"#.*", wanted))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from(EDITS)))
def test_a_side_that_changes_nothing_gives_way(edits: set[tuple[str, str]]) -> None:
    side = changed(*edits)
    assert merged(SAMPLE, SAMPLE, side).text == side
    assert merged(SAMPLE, side, SAMPLE).text == side
    assert merged(SAMPLE, side, side).text == side
    again = merged(SAMPLE, side, SAMPLE + "\n# the end\n")
    assert said(again.text) == said(side)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_values_of_one_item_conflict_at_that_item(data: st.DataObject) -> None:
    numbers = sorted(set(re.findall(r"\b(?:width|layers|heads|kv_heads|group|tasks|batch) = \d+", SAMPLE)))
    word = data.draw(st.sampled_from(numbers))
    name = word.partition(" ")[0]
    found = merged(SAMPLE, changed((word, f"{name} = 901")), changed((word, f"{name} = 902")))
    assert [c.path.rpartition(".")[2] for c in found.conflicts] == [name]
    shown = re.search(r"<<<<<<< ours\n(.*?)\n=======\n(.*?)\n>>>>>>> theirs\n", found.text, re.DOTALL)
    assert shown is not None
    assert [side.strip().startswith(f"{name} = {n}") for side, n in zip(shown.groups(), (901, 902), strict=True)] == [
        True,
        True,
    ]
    for side in (1, 2):  # either side taken gives a file that parses
        text = re.sub(r"<<<<<<< ours\n(.*?)\n=======\n(.*?)\n>>>>>>> theirs", rf"\{side}", found.text, flags=re.DOTALL)
        assert f"{name} = 90{side}" in " ".join(f"{k.rpartition('/')[2]} = {v}" for k, v in said(text).items())


def test_a_change_against_a_removal_is_a_conflict() -> None:
    gone = changed(("  judge turns : oracle { on = [desk]  flip = 5% }\n", ""))
    noisy = changed(("flip = 5%", "flip = 9%"))
    for ours, theirs in ((gone, noisy), (noisy, gone)):
        found = merged(SAMPLE, ours, theirs)
        assert [(c.path, "removed" in c.reason) for c in found.conflicts] == [("judge.turns", True)]
        assert "flip = 9%" in found.text


def test_both_may_remove_and_both_may_add_the_same() -> None:
    gone = changed(("  judge turns : oracle { on = [desk]  flip = 5% }\n", ""), ("width = 64", "width = 96"))
    also = changed(("  judge turns : oracle { on = [desk]  flip = 5% }\n", ""), ("layers = 3", "layers = 4"))
    found = merged(SAMPLE, gone, also)
    assert found.conflicts == ()
    assert "judge turns" not in found.text
    added = ("  credit =", "  let x : real = 1\n  credit =")
    assert merged(SAMPLE, changed(added), changed(added, ("layers = 3", "layers = 4"))).conflicts == ()


def test_different_additions_of_one_name_conflict() -> None:
    one, other = (changed(("  credit =", f"  let x : real = {n}\n  credit =")) for n in (1, 2))
    assert [c.path for c in merged(SAMPLE, one, other).conflicts] == ["let.x"]


def test_a_change_of_layout_gives_way_to_a_change_of_meaning() -> None:
    loose = changed(("      outcome\n      - 0.1 * indicator", "      outcome   # decides\n      - 0.1 *   indicator"))
    strict = changed(("- 0.1 * indicator", "- 0.3 * indicator"))
    for ours, theirs in ((loose, strict), (strict, loose)):
        found = merged(SAMPLE, ours, theirs)
        assert found.conflicts == ()
        assert "- 0.3 * indicator" in found.text
        assert "# decides" in found.text


def test_comments_of_both_sides_stay() -> None:
    one = changed(("  # One scalar", "  # Ours.\n  # One scalar"), ("layers = 3", "layers = 4"))
    other = changed(("  # One scalar", "  # Theirs.\n  # One scalar"), ("width = 64", "width = 96"))
    text = merged(SAMPLE, one, other).text
    assert all(f"# {word}" in text for word in ("Ours.", "Theirs.", "One scalar"))


def test_the_side_that_moves_stages_gives_the_order() -> None:
    start, stop = SAMPLE.index("  stage coldstart"), SAMPLE.index("  stage train")
    moved = SAMPLE[:start] + SAMPLE[stop:].rstrip().removesuffix("}") + SAMPLE[start:stop] + "}\n"
    edited = changed(("lr = 4e-3", "lr = 5e-3"))
    for ours, theirs in ((moved, edited), (edited, moved)):
        found = merged(SAMPLE, ours, theirs)
        assert found.conflicts == ()
        assert found.text.index("stage train") < found.text.index("stage coldstart")
        assert "lr = 5e-3" in found.text


def test_two_orders_of_stages_conflict() -> None:
    blocks = re.findall(r"  stage .*?\n(?:  }\n)?(?=\n|})", SAMPLE, re.DOTALL)
    head = SAMPLE[: SAMPLE.index("  stage coldstart")]
    orders = ["".join(blocks[i] for i in order) for order in ((1, 0, 2), (2, 1, 0))]
    found = merged(SAMPLE, *(f"{head}{o}}}\n" for o in orders))
    assert [c.path for c in found.conflicts] == ["stage"]


def test_a_file_that_both_added() -> None:
    ours, theirs = "rlspec = 1\ndef a(x : real) : real = x\n", "rlspec = 1\ndef b(x : real) : real = x\n"
    found = merged("", ours, theirs)
    assert found.conflicts == ()
    assert list(said(found.text)) == ["/rlspec", "/def a(x : real) : real", "/def b(x : real) : real"]


def test_formatted_files_stay_formatted() -> None:
    ours, theirs = changed(("layers = 3", "layers = 12")), changed(("width = 64", "width = 12_800"))
    text = merged(SAMPLE, ours, theirs).text
    assert formatted(Source("", text)) == text


@pytest.mark.parametrize("text", [SAMPLE, (ROOT / "specs" / "papers" / "tarl.rlspec").read_text()])
def test_taking_a_file_apart_and_together_loses_nothing(text: str) -> None:
    found = merged(text + "# x\n", text + "# y\n", text + "# z\n")
    assert found.conflicts == ()
    assert {"# y", "# z"} <= set(found.text.splitlines())
    assert same_tree(parse(Source("", found.text))[0].items, parse(Source("", text))[0].items)
