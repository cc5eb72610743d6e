"""The tree-sitter grammar: the same language and the same trees as the compiler's parser, and queries that fit it."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench_module import bench_module
from rlspec.compiler.functions import FUNCTIONS
from rlspec.dsl.tables import load

tree_sitter = pytest.importorskip("tree_sitter", reason="the package tree-sitter is not installed (extra: dev)")
if shutil.which("cc") is None:
    pytest.skip("no C compiler here", allow_module_level=True)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editor" / "tree-sitter"
QUERIES = sorted((FOLDER / "queries").glob("*.scm"))


shapes = bench_module("language/tree_sitter_shapes")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return shapes.language(shapes.compiled(tmp_path_factory.mktemp("grammar")))


@pytest.fixture(scope="module")
def parser(language: Any) -> Any:
    return tree_sitter.Parser(language)


@pytest.mark.parametrize("path", shapes.corpus(), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_spec_has_the_compilers_tree(path: Path, parser: Any) -> None:
    assert shapes.difference(path.read_text(encoding="utf-8"), parser) is None


def test_generated_and_faulty_files_are_taken_or_refused_alike(parser: Any) -> None:
    texts = shapes.texts(120, seed=5)
    found = [(what, text) for text in texts if (what := shapes.difference(text, parser)) is not None]
    assert found == []
    refused = sum(parser.parse(text.encode()).root_node.has_error for text in texts)
    assert 30 < refused < 90  # both kinds are there


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("a\n= 3", True), ("a b :\n c { }", True), ("a b : real@traj\n in [0, 1] = 3", True),
        ("def f(\na : real\n@traj) : real = 3", True), ("x = f(over = 3, where = 2)", True), ("on = 3", True),
        ("a on b = 3", True), ("a : b on c = 3", True), ("x = a not\n in b", True), ("x = 1.5e", True),
        ("x = 3in", True), ("x = inside", True), ("x = [a, ]", True), ("# only this", True), ("", True),
        ("a\nb = 3", False), ("a b\n: c { }", False), ("test\n\"x\" { }", False), ("a : b\non c { }", False),
        ("over = 3", False), ("x = a.over", False), ("x = (a inside b)", False), ("x = a == b == c", False),
        ("x = 1 + if a then b else c", False), ("x = f(align = 3)", False), ("x = [, ]", False), ("x = 'a'", False),
        ("x = \"a\n\"", False), ("a : real\n@traj = 3", False), ("a b\nextends c { }", False), ("}", False),
    ],
)  # fmt: skip
def test_the_corners_of_the_language(text: str, sound: bool, parser: Any) -> None:
    assert parser.parse(text.encode()).root_node.has_error is not sound
    assert shapes.difference(text, parser) is None


def test_a_difference_would_be_noticed(parser: Any) -> None:
    class Other:
        """Reads a text as if its last `+` were a `-`."""

        def parse(self, data: bytes) -> Any:
            return parser.parse(data.replace(b"+", b"-"))

    assert shapes.difference("x = a + b", Other()) == "another tree"
    assert shapes.difference("x = a +", Other()) is None

    class Careless(Other):
        def parse(self, data: bytes) -> Any:
            return parser.parse(b"x = 1")

    assert shapes.difference("x = =", Careless()) == "they accept"


@pytest.mark.parametrize("path", QUERIES, ids=lambda p: p.name)
def test_queries_name_nodes_of_the_grammar(path: Path, language: Any) -> None:
    tree_sitter.Query(language, path.read_text(encoding="utf-8"))


def test_what_stands_where_is_coloured(language: Any, parser: Any) -> None:
    text = (ROOT / "specs" / "papers" / "tarl.rlspec").read_bytes()
    query = tree_sitter.Query(language, (FOLDER / "queries" / "highlights.scm").read_text(encoding="utf-8"))
    found = tree_sitter.QueryCursor(query).captures(parser.parse(text).root_node)
    said = {name: {n.text.decode() for n in nodes} for name, nodes in found.items()}
    assert {"policy", "reward", "stage", "variant", "experiment"} <= said["keyword"]
    assert {"any", "sum", "clip", "num"} <= said["function.builtin"]
    assert {"reported", "assumed", "traj", "turn"} <= said["attribute"]
    assert {"real", "int", "tau_bench", "hf"} <= said["type"]
    assert "max_turns" in said["property"]
    assert "R" in said["variable.definition"]


def test_the_query_knows_the_functions_of_the_language() -> None:
    text = (FOLDER / "queries" / "highlights.scm").read_text(encoding="utf-8")
    block = re.search(r"#any-of\? @function\.builtin(.*?)\)\)", text, flags=re.DOTALL)
    assert block is not None
    assert set(FUNCTIONS) - {"reported", "assumed", "chosen"} <= set(re.findall(r'"(\w+)"', block[1]))


def test_the_scanner_reserves_the_words_of_the_grammar() -> None:
    text = (FOLDER / "src" / "scanner.c").read_text(encoding="utf-8")
    listed = re.search(r"WORDS\[\] = \{(.*?)\};", text, flags=re.DOTALL)
    assert listed is not None
    assert re.findall(r'"(\w+)"', listed[1]) == sorted(load().keywords)


def test_the_package_names_what_is_there() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    assert all((FOLDER / name).exists() for name in (package["main"], *package["files"]))
    assert (FOLDER / package["tree-sitter"][0]["highlights"]).is_file()


def test_faults_are_the_same_for_the_same_seed() -> None:
    assert shapes.faulty("a = b + c", random.Random(1), 3) == shapes.faulty("a = b + c", random.Random(1), 3)
