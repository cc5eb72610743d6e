"""The tree-sitter grammar beside the compiler's own parser: do they accept the same texts, and see the same trees?

    python bench/language/tree_sitter_shapes.py --count 5000

Both trees are told as nested tuples without positions. Texts are the specs of this repository, generated files
(`format.py`) and files with one to three faults. What only the compiler knows is left out of the comparison: how large
a number may be (RLC0012), which escapes there are (RLC0011), how large a file may be (RLC0010).
"""

from __future__ import annotations

import argparse
import ctypes
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editor" / "tree-sitter"
BEYOND = ("RLC0010", "RLC0011", "RLC0012")
Shape = Any


def compiled(folder: Path) -> Path:
    """The grammar as a shared library, made with `cc`."""
    library = folder / "rlspec.so"
    sources = [FOLDER / "src" / name for name in ("parser.c", "scanner.c")]
    command = ["cc", "-shared", "-fPIC", "-O1", "-I", str(FOLDER / "src"), *map(str, sources), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    return library


def language(library: Path) -> Any:
    """What the `tree_sitter` package parses with."""
    from tree_sitter import Language

    function = ctypes.CDLL(str(library)).tree_sitter_rlspec
    function.restype = ctypes.c_void_p
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return Language(make(function(), b"tree_sitter.Language", None))


# -------------------------------------------------------------------------------------------- the compiler's trees


def ours(node: Any) -> Shape:
    """A tree of `rlspec.dsl.tree` as nested tuples."""
    from rlspec.dsl import tree

    match node:
        case None:
            return None
        case tuple():
            return tuple(map(ours, node))
        case tree.File(items=items):
            return ("file", ours(items))
        case tree.Item(head=head, value=value, body=body):
            return ("item", ours(head), ours(value), ours(body))
        case tree.Head():
            parts = (node.path, node.labels, node.parameters, node.type, node.extends, node.on)
            return ("head", *map(ours, parts))
        case tree.TypeExpr(base=base, level=level, range=range_):
            return ("type", ours(base), ours(level), ours(range_))
        case tree.Parameter(name=name, type=type_, default=default):
            return ("parameter", ours(name), ours(type_), ours(default))
        case tree.Number(text=text):
            return ("number", text)
        case tree.Text(value=value):
            return ("text", value)
        case tree.Boolean(value=value):
            return ("boolean", value)
        case tree.Name(value=value):
            return ("name", value)
        case tree.Member(target=target, name=name):
            return ("member", ours(target), ours(name))
        case tree.Index(target=target, key=key):
            return ("index", ours(target), ours(key))
        case tree.Unary(op=op, operand=operand):
            return ("unary", op, ours(operand))
        case tree.Binary(op=op, left=left, right=right):
            return ("binary", op, ours(left), ours(right))
        case tree.Conditional(condition=condition, yes=yes, no=no):
            return ("conditional", ours(condition), ours(yes), ours(no))
        case tree.Call(function=function, arguments=arguments):
            return ("call", ours(function), ours(arguments))
        case tree.Argument(value=value, name=name, over=over, align=align, where=where):
            return ("argument", ours(value), ours(name), ours(over), ours(align), ours(where))
        case tree.ListOf(items=items):
            return ("list", ours(items))
        case tree.SetOf(items=items):
            return ("set", ours(items))
    raise TypeError(type(node))


# --------------------------------------------------------------------------------------------- tree-sitter's trees


def theirs(node: Any) -> Shape:
    """A tree of tree-sitter as the same tuples."""
    from rlspec.dsl.tokens import text_value

    def field(name: str) -> Shape:
        found = node.child_by_field_name(name)
        return None if found is None else theirs(found)

    def fields(name: str) -> tuple[Shape, ...]:
        return tuple(theirs(child) for child in node.children_by_field_name(name) if child.is_named)

    def named(of: Any = node) -> tuple[Shape, ...]:
        return tuple(theirs(child) for child in of.named_children if child.type != "comment")

    text = node.text.decode()
    match node.type:
        case "source_file":
            return ("file", named())
        case "item":
            body = node.child_by_field_name("body")
            return ("item", field("head"), field("value"), None if body is None else named(body))
        case "head":
            parameters = node.child_by_field_name("parameters")
            given = None if parameters is None else named(parameters)
            kind = named(node.child_by_field_name("kind"))
            return ("head", kind, fields("label"), given, field("type"), field("extends"), field("on"))
        case "type":
            return ("type", field("base"), field("level"), field("range"))
        case "parameter":
            return ("parameter", field("name"), field("type"), field("default"))
        case "reference":
            first, *rest = named()
            for name in rest:
                first = ("member", first, name)
            return first
        case "number" | "name":
            return (node.type, text)
        case "text":
            return ("text", text_value(text))
        case "boolean":
            return ("boolean", text == "true")
        case "member":
            return ("member", field("target"), field("name"))
        case "index":
            return ("index", field("target"), field("key"))
        case "unary":
            return ("unary", node.child_by_field_name("operator").text.decode(), field("operand"))
        case "binary":
            operator = " ".join(node.child_by_field_name("operator").text.decode().split())
            operator = "not in" if node.child_by_field_name("operator").type == "not_in" else operator
            return ("binary", operator, field("left"), field("right"))
        case "conditional":
            return ("conditional", field("condition"), field("yes"), field("no"))
        case "parenthesis":
            return named()[0]
        case "call":
            arguments = tuple(theirs(c) for c in node.named_children if c.type == "argument")
            return ("call", field("function"), arguments)
        case "argument":
            over = node.child_by_field_name("over")
            axes = () if over is None else named(over)
            return ("argument", field("value"), field("name"), axes, field("align"), field("where"))
        case "list" | "set":
            return (node.type, named())
    raise TypeError(node.type)


# ------------------------------------------------------------------------------------------------------ comparison


def difference(text: str, parser: Any) -> str | None:
    """How the two parsers differ on a text: `they accept`, `we accept`, `another tree`; None when they agree.

    A text is rejected when it has a syntax error that a grammar can know of."""
    from rlspec.dsl.diagnostics import Source
    from rlspec.dsl.parser import parse

    file, report = parse(Source("text", text))
    refused = any(d.code not in BEYOND for d in report)
    found = parser.parse(text.encode("utf-8", "replace"))
    if found.root_node.has_error != refused:
        return "they accept" if refused else "we accept"
    if refused or report:
        return None
    return None if ours(file) == theirs(found.root_node) else "another tree"


def faulty(text: str, dice: random.Random, faults: int) -> str:
    """The text with so many faults: a token gone, twice, changed with the next, or a bracket, quote or line end gone or
    put in."""
    from rlspec.dsl.tables import load
    from rlspec.dsl.tokens import scan

    for _ in range(faults):
        tokens = scan(text, load()).tokens[:-1]
        if len(tokens) < 2:
            return text
        at = dice.randrange(len(tokens) - 1)
        token, after = tokens[at], tokens[at + 1]
        between = text[token.stop : after.start]
        match dice.randrange(6):
            case 0:
                text = text[: token.start] + text[token.stop :]
            case 1:
                text = text[: token.stop] + " " + text[token.start :]
            case 2:
                text = text[: token.start] + after.text + between + token.text + text[after.stop :]
            case 3:
                text = text[: token.stop] + dice.choice('(){}[]"=:@.,\n') + text[token.stop :]
            case 4:
                text = text[: token.stop] + "\n" + text[after.start :]
            case _:
                word = dice.choice(["on", "in", "over", "where", "if", "then", "not", "align", "extends", "x", "1"])
                text = text[: token.stop] + f" {word} " + text[token.stop :]
    return text


def corpus() -> list[Path]:
    """Every spec of the repository."""
    return sorted([*ROOT.glob("specs/**/*.rlspec"), *ROOT.glob("examples/*.rlspec"), *ROOT.glob("tests/**/*.rlspec")])


def texts(count: int, seed: int) -> list[str]:
    """Generated files, a third of them sound, and the corpus with faults."""
    sys.path.insert(0, str(Path(__file__).parent))
    from format import generated

    dice = random.Random(seed)
    known = [path.read_text(encoding="utf-8") for path in corpus()]
    out = []
    for number in range(count):
        text = generated(dice) if number % 3 else dice.choice(known)
        out.append(faulty(text, dice, number % 4) if number % 3 != 1 else text)
    return out


def main() -> None:
    from tree_sitter import Parser

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=3000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--show", type=int, default=3, help="texts on which they differ")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parser = Parser(language(compiled(Path(folder))))
        found: Counter[str] = Counter()
        for text in [*(p.read_text(encoding="utf-8") for p in corpus()), *texts(given.count, given.seed)]:
            what = difference(text, parser)
            found[what or "agree"] += 1
            if what is not None and found[what] <= given.show:
                print(f"---- {what}\n{text}")
    total = sum(found.values())
    print(", ".join(f"{what}: {n} of {total} ({n / total:.2%})" for what, n in found.most_common()))


if __name__ == "__main__":
    main()
