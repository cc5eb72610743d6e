"""A reader who begins at the first page comes to every other one, and finds what a page points at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "README.md"
PAGES = [FIRST, *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = ("dsl", "compiler", "runtime", "cli", "editor", "specs", "examples", "bench", "docs", "tests")
PATH = re.compile(rf"(?:`|python )((?:{'|'.join(FOLDERS)})/[\w./-]*\w)")
MODULE = re.compile(r"`(\w+\.py)`")


def targets(page: Path) -> list[tuple[Path, str]]:
    """The files that a page links to, each with the heading that is meant."""
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    parts = [link.partition("#") for link in links]
    return [((page.parent / path).resolve() if path else page, heading) for path, _, heading in parts]


def headings(page: Path) -> set[str]:
    """As GitHub names them in addresses."""
    found = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_points_at_is_there(page: Path) -> None:
    for target, heading in targets(page):
        assert target.exists(), f"there is no {target}"
        assert not heading or heading in headings(target), f"{target} has no heading #{heading}"
    text = page.read_text("utf-8")
    missing = {path for path in PATH.findall(text) if not (ROOT / path).exists()}
    modules = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert not missing | set(MODULE.findall(text)) - modules


def test_every_page_is_reached_from_the_first_one() -> None:
    seen: set[Path] = set()
    ahead = [FIRST]
    while ahead:
        page = ahead.pop()
        if page not in seen:
            seen.add(page)
            ahead += [target for target, _ in targets(page) if target.suffix == ".md"]
    assert set(PAGES) <= seen
