"""The page of a spec: what it says, and that nothing a spec says can become markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.showing.graph import graph_of
from rlspec.compiler.showing.page import code, html_page, markdown_page, words
from rlspec.compiler.showing.sheet import Sheet, sheet
from rlspec.dsl.diagnostics import Source, SpecError

ROOT = Path(__file__).parents[3]
TARL = ROOT / "specs" / "papers" / "tarl.rlspec"
SPECS = sorted([*ROOT.glob("specs/papers/*.rlspec"), *ROOT.glob("examples/*.rlspec")])
VOID = ("meta", "br")


def of(path: Path, text: str | None = None) -> Sheet:
    return sheet(Source(str(path), path.read_text(encoding="utf-8") if text is None else text))


class Reader(HTMLParser):
    """The elements of a page; raises where they are not nested properly."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data if not self.open or self.open[-1] != "style" else ""


def reads(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def tarl() -> Sheet:
    return of(TARL)


def test_the_sheet_knows_where_every_number_comes_from(tarl: Sheet) -> None:
    known = {(c.path, c.value): c for c in tarl.constants}
    assert known["param.outcome_scale", "10"].note == "collapse rule"
    assert known["stage.train.steps", "250 steps"].source == "assumed"
    assert known["reward.R on retail", "-5"].source == "unsourced"  # the clip's bounds
    assert not any(c.value in ("-1", "0", "1") for c in tarl.constants if c.path.startswith("reward"))
    assert tarl.counts["assumed"] == sum(c.source == "assumed" for c in tarl.constants) == 5


def test_formulas_say_what_they_reach_and_open_what_they_use(tarl: Sheet) -> None:
    rewards = [f for f in tarl.formulas if f.kind == "reward"]
    assert [(f.on, f.reach) for f in rewards] == [
        ("retail", (("real@traj in [-5, 11]", ""),)), ("math", (("real@traj in {0, 10}", ""),))]  # fmt: skip
    assert [d.name for d in tarl.definitions] == ["std.grpo"]
    assert "Shao" in tarl.definitions[0].remark


def test_a_formula_of_recovery_groups_is_told_with_what_it_reaches_there() -> None:
    text = (ROOT / "tests" / "mini.rlspec").read_text()
    text = text.replace("  credit =", "  reward R : real@traj on fission = 2 * outcome\n  credit =")
    text = text.replace("  stage held_out", "  stage fission : resample { within = train }\n  stage held_out")
    page = of(ROOT, text)
    rewards = {f.on: f.reach for f in page.formulas if f.name == "R"}
    assert rewards == {"": (("real@traj in [-0.1, 1.1]", ""),), "fission": (("real@traj in {0, 2}", ""),)}
    (advantage,) = (f for f in page.formulas if f.name == "A")
    assert len(advantage.reach) == 1
    assert page.shares == ()
    roles = graph_of(page.plan)
    assert {"reward.R.desk", "reward.R.fission"} <= {n.name for n in roles.nodes}


def test_a_choice_among_kinds_is_told_by_its_choices() -> None:
    text = (ROOT / "tests" / "mini.rlspec").read_text()
    text = text.replace("judge turns : oracle { on = [desk]  flip = 30% }", "judge turns : oracle { on = [desk] }\n"
                        "  judge kinds : tiers { on = [desk] }\n"
                        "  signal tier : {gold, soft, read, state, msg, err, dup}@turn = kinds.tier")  # fmt: skip
    text = text.replace("      + 0.1 * sum", "      + 0.1 * count(tier == gold over turn)\n      + 0.1 * sum")
    (tier,) = (f for f in of(ROOT, text).formulas if f.name == "tier")
    assert tier.reach == (("{gold, soft, read, state, msg, err, dup}@turn", ""),)


def test_a_definition_that_another_one_uses_is_opened_too() -> None:
    text = (ROOT / "tests" / "mini.rlspec").read_text()
    two = "def outer(R : real@traj) : real@traj = inner(R)\ndef inner(R : real@traj) : real@traj = 2 * R\n"
    text = text.replace("rlspec = 1\n", f"rlspec = 1\n{two}").replace("std.grpo(R)", "outer(R)")
    assert [d.name for d in of(ROOT, text).definitions] == ["outer", "inner"]


def test_variants_claims_and_tests_are_told(tarl: Sheet) -> None:
    live = next(v for v in tarl.variants if v.name == "live_intervention")
    assert live.difference is not None
    assert [r.where for r in live.difference.rows] == ["judge.turns.when"]
    assert all(a.holds for a in tarl.assertions)
    assert len(tarl.tests) == 10
    assert all(t.holds for t in tarl.tests)


def test_what_does_not_hold_is_said() -> None:
    text = TARL.read_text().replace("full - sparse == 6.1pp", "full - sparse == 7pp").replace("R == 11", "R == 12")
    with pytest.raises(SpecError, match="RLC0801"):
        of(TARL, text)
    page = of(TARL, TARL.read_text().replace("expect top = R == 11", "expect top = R == 12"))
    assert [t.name for t in page.tests if not t.holds] == ["top"]
    assert "does not hold" in reads(html_page(page)).said


def test_a_variant_with_errors_does_not_spoil_the_page() -> None:
    text = TARL.read_text().replace("patch.judge.turns.when = during_rollout", "patch.judge.turns.whem = after", 1)
    broken = next(v for v in of(TARL, text).variants if v.name == "live_intervention")
    assert broken.difference is None
    assert "RLC01" in broken.problem


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_page_stands_alone(path: Path) -> None:
    page = html_page(of(path))
    reader = reads(page)
    tags = {tag for tag, _ in reader.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not [a for _, attrs in reader.seen for a in attrs if a.startswith("on") or a in ("src", "href", "style")]
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert reader.seen.count(("math", {})) == 0
    assert all(attrs["aria-label"] for tag, attrs in reader.seen if tag == "math")


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_tables_and_formulas_of_markdown_are_blocks_of_their_own(path: Path) -> None:
    lines = markdown_page(of(path)).split("\n")
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if line.startswith("#"):
            assert (before, after) == ("", "")
        if line.startswith("|") and not before.startswith("|"):
            assert before == ""
            assert after.startswith("|---")
    rows = [line for line in lines if line.startswith("|")]
    cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert cells
    widths = [w for row, w in zip(rows, cells, strict=True) if row.startswith("|---")]
    assert set(cells) <= set(widths)
    assert lines.count("$$") % 2 == 0


HOSTILE = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }} {% raw %}",
    "$\\\\input{x}$ `code` | cell | [link](javascript:alert(1)) **bold**",
    "# heading",
    "]]> --> &lt;b&gt;",
]


@pytest.mark.parametrize("words_", HOSTILE)
def test_a_hostile_title_note_or_source_is_only_text(words_: str) -> None:
    whole = TARL.read_text().partition("  variant without_math")[0] + "}\n"
    quoted = words_.replace('"', '\\"')
    text = whole.replace('title = "TARL: judge every turn, let one scalar per trajectory reach the policy"',
                                    f'title = "{quoted}"\n  note = "{quoted}"')  # fmt: skip
    text = text.replace('"collapse rule"', f'"{quoted}"').replace('"the outcome alone"', f'"{quoted}"')
    text = text.replace('model = "Qwen/Qwen3-8B"', f'model = "{quoted}"')
    page = of(TARL, text)
    shown = page.title  # escapes of the language are read
    reader = reads(html_page(page))
    plain = html_page(of(TARL, whole))
    extra = {(t, str(a)) for t, a in reader.seen} - {(t, str(a)) for t, a in reads(plain).seen}
    assert {t for t, _ in extra} <= {"p"}  # the note's
    assert reader.said.count(shown) >= 5
    markdown = markdown_page(page)
    assert f"# {words(shown)}" in markdown
    assert "<script" not in markdown.replace("`", "").replace(r"\<script", "")


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_words_of_markdown_hold_no_markup(given_: str) -> None:
    shown = words(given_)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>#|$]", shown)


@given(st.text(alphabet="a`|\\ \n", max_size=20))
def test_code_of_markdown_closes_where_it_should(given_: str) -> None:
    shown = code(given_)
    fence = re.match("`+", shown)
    assert fence is not None
    inner = shown[len(fence.group()) : -len(fence.group())]
    assert fence.group() not in re.findall("`+", inner)


def test_a_variant_and_a_setting_have_pages_of_their_own() -> None:
    source = Source(str(TARL), TARL.read_text())
    varied = sheet(source, variant="sparse")
    assert (varied.variant, varied.variants) == ("sparse", ())
    assert [p.label for p in varied.parts if p.kind == "judge"] == []
    assert "variant" in reads(html_page(varied)).said
