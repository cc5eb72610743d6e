"""The VS Code extension: its manifest, and its TextMate grammar held to the language's own tokens."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rlspec.cli.main import COMMANDS
from rlspec.compiler.catalog import catalog
from rlspec.compiler.experiment import FORMULAS, OTHERS, SETTINGS
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import scan

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editor" / "vscode"
GRAMMAR: dict[str, Any] = json.loads((FOLDER / "syntaxes" / "rlspec.tmLanguage.json").read_text(encoding="utf-8"))
CORPUS = sorted([*ROOT.glob("specs/**/*.rlspec"), *ROOT.glob("examples/*.rlspec"), *ROOT.glob("tests/**/*.rlspec")])

# What a token of a kind may be coloured as: the beginning of its innermost scope.
WANTED = {
    "NUMBER": ("constant.numeric",),
    "TEXT": ("punctuation.definition.string",),
    "COMPARE": ("keyword.operator.comparison",),
    "EQUAL": ("keyword.operator.assignment",),
    **dict.fromkeys(("PLUS", "MINUS", "STAR", "SLASH", "CIRCUMFLEX"), ("keyword.operator.arithmetic",)),
    **dict.fromkeys(("LBRACE", "RBRACE"), ("punctuation.section.block",)),
    **dict.fromkeys(("LPAR", "RPAR"), ("punctuation.section.parens",)),
    **dict.fromkeys(("LSQB", "RSQB"), ("punctuation.section.brackets",)),
    "COMMA": ("punctuation.separator.comma",),
    "COLON": ("punctuation.separator.type",),
    "AT": ("punctuation.separator.level",),
    "DOT": ("punctuation.accessor", "entity.name.type"),
    **dict.fromkeys(("TRUE", "FALSE"), ("constant.language.boolean",)),
    **dict.fromkeys(("IF", "THEN", "ELSE"), ("keyword.control",)),
    **dict.fromkeys(("AND", "OR", "NOT", "IN"), ("keyword.operator.word",)),
    **dict.fromkeys(("OVER", "ALIGN"), ("keyword.other.axis",)),
    **dict.fromkeys(("WHERE", "EXTENDS"), ("keyword.other",)),
    "NAME": ("variable.other", "entity.name", "keyword.declaration", "keyword.other", "support", "storage.modifier"),
}


def rules(patterns: list[dict[str, Any]]) -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """The grammar's rules in their order, with includes and groups laid out flat."""
    found = []
    for pattern in patterns:
        if "include" in pattern:
            found += rules([GRAMMAR["repository"][pattern["include"].removeprefix("#")]])
        elif "match" in pattern:
            found.append((re.compile(pattern["match"]), pattern))
        else:
            found += rules(pattern["patterns"])
    return found


RULES = rules(GRAMMAR["patterns"])


def painted(line: str) -> list[str]:
    """The innermost scope of each character of a line, as a TextMate engine gives it to a grammar of `match` rules: the
    earliest match wins, of several the first rule's."""
    out, at = [""] * len(line), 0
    while at < len(line):
        matches = [(m, rule) for pattern, rule in RULES if (m := pattern.search(line, at)) and m.end() > m.start()]
        if not matches:
            break
        match, rule = min(matches, key=lambda pair: pair[0].start())
        out[match.start() : match.end()] = [rule.get("name", "")] * (match.end() - match.start())
        for number, capture in rule.get("captures", {}).items():
            start, stop = match.span(int(number))
            out[start:stop] = [capture["name"]] * (stop - start)
        at = match.end()
    return out


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_token_gets_a_scope_of_its_kind(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    scopes = [painted(line) for line in lines]
    scanned = scan(text, load())
    wrong = [
        (token.line + 1, token.text, token.kind, scopes[token.line][token.column])
        for token in scanned.tokens
        if token.kind != "$END" and not scopes[token.line][token.column].startswith(WANTED[token.kind])
    ]
    assert wrong == []
    for comment in scanned.comments:
        line = text.count("\n", 0, comment.span.start)
        assert scopes[line][comment.span.start - text.rfind("\n", 0, comment.span.start) - 1].endswith("comment.rlspec")


def test_the_corpus_holds_every_kind_of_token() -> None:
    seen = {t.kind for path in CORPUS for t in scan(path.read_text(encoding="utf-8"), load()).tokens}
    tables = load()
    assert {*tables.keywords.values(), *tables.signs.values()} <= seen
    assert set(WANTED) == {*tables.keywords.values(), *tables.signs.values(), "NUMBER", "NAME", "TEXT", "COMPARE"}


@pytest.mark.parametrize(
    ("line", "word", "scope"),
    [
        ("  policy agent : tiny { width = 64 }", "agent", "entity.name"),
        ("  policy agent : tiny { width = 64 }", "tiny", "entity.name.type"),
        ("  policy agent : tiny { width = 64 }", "width", "variable.other.property"),
        ("  max_turns = 16agent_turns", "agent_turns", "keyword.other.unit"),
        ("  reward R : real@traj on retail = x", "traj", "storage.modifier.level"),
        ("  reward R : real@traj on retail = x", "on", "keyword.other"),
        ("  judge j : oracle { on = [desk] }", "on", "variable.other.property"),
        ("  x = any(v == -1 over turn)", "turn", "storage.modifier.level"),
        ("  A = std.grpo(R)", "grpo", "support.function.library"),
        ("  share = assumed(0.2, \"why\")", "assumed", "support.function.provenance"),
        ("  note = \"# no comment\"", "# no", "string.content"),
        ("  x = if a then true else b", "then", "keyword.control"),
        ("  x = if a then true else b", "true", "constant.language.boolean"),
        ("  variant v extends w { }", "extends", "keyword.other"),
    ],
)  # fmt: skip
def test_words_are_coloured_by_what_they_are(line: str, word: str, scope: str) -> None:
    found = painted(line)[line.index(f" {word}" if word == "on" else word) + (word == "on")]
    assert found.startswith(scope)


def test_every_kind_of_declaration_is_a_keyword() -> None:
    for kind in (*catalog(), *FORMULAS, *OTHERS, *SETTINGS, "experiment", "def"):
        line = f"  {kind} = x" if kind in (*SETTINGS, "credit") else f"  {kind} name {{ }}"
        assert painted(line)[2] == "keyword.declaration.rlspec", kind


def test_the_manifest_names_files_that_exist() -> None:
    manifest = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    adds = manifest["contributes"]
    named = [manifest["main"], adds["languages"][0]["configuration"], adds["grammars"][0]["path"]]
    assert all((FOLDER / name).is_file() for name in named)
    assert adds["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
    assert adds["configuration"]["properties"]["rlspec.command"]["default"] == ["rlc", "lsp"]


def test_every_command_of_the_manifest_is_registered_and_calls_what_rlc_has() -> None:
    manifest = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((FOLDER / "src").glob("*.js")))
    registered = set(re.findall(r'registerCommand\("([\w.]+)"|^  "([\w.]+)": \(\) =>', sources, flags=re.MULTILINE))
    assert {a or b for a, b in registered} == {c["command"] for c in manifest["contributes"]["commands"]}
    assert set(re.findall(r'show\("\w+", \["(\w+)"\]', sources)) == {"doc", "graph"} <= set(COMMANDS)
    assert all((FOLDER / "src" / f"{name}.js").is_file() for name in re.findall(r'require\("\./(\w+)"\)', sources))


def test_the_language_configuration_knows_the_comment_and_the_brackets() -> None:
    found = json.loads((FOLDER / "language-configuration.json").read_text(encoding="utf-8"))
    signs = load().signs
    assert found["comments"] == {"lineComment": "#"}
    assert {b for pair in found["brackets"] for b in pair} == {
        s for s, k in signs.items() if k[0] in "LR" and len(k) > 3 and k != "STAR"
    }
    words = re.compile(found["wordPattern"])
    assert [m.group() for m in islice(words.finditer("max_turns = 16agent_turns"), 2)] == ["max_turns", "16agent_turns"]
