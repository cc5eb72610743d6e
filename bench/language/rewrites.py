"""Rewrites of specs that keep their meaning, and changes of a single value with the path that a diff must name.

Both work on the syntax tree and print it again; a rewrite is a random sequence of a few of `REWRITES`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from rlspec.compiler.catalog import catalog
from rlspec.compiler.components import struct_of
from rlspec.dsl import parser, tree
from rlspec.dsl.diagnostics import Source
from rlspec.dsl.printer import text_of

NOWHERE = tree.Span(0, 0)
FORMULAS = ("let", "reward", "advantage")


# ----------------------------------------------------------------------------------------------------- tree surgery


def expression(text: str) -> tree.Expression:
    """A text as a tree."""
    found, report = parser.parse_expression(Source("rewrite", text))
    assert found is not None, report
    return found


def over(node: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with `change` applied to every node, children first."""
    if isinstance(node, tuple):
        return tuple(over(n, change) for n in node)
    if not hasattr(node, "__dataclass_fields__") or isinstance(node, tree.Span):
        return node
    names = [f for f in node.__dataclass_fields__ if f != "span"]
    return change(replace(node, **{f: over(getattr(node, f), change) for f in names}))


def experiment_of(file: tree.File) -> tree.Item:
    return next(i for i in file.items if i.head.path[0].value == "experiment")


def with_body(file: tree.File, body: tuple[tree.Item, ...]) -> tree.File:
    items = tuple(replace(i, body=body) if i.head.path[0].value == "experiment" else i for i in file.items)
    return replace(file, items=items)


def kind_of(item: tree.Item) -> str:
    return item.head.path[0].value


def in_formulas(file: tree.File, change: Callable[[Any], Any]) -> tree.File:
    """`change` applied to every node of the formulas' right sides."""
    body = tuple(
        replace(i, value=over(i.value, change)) if kind_of(i) in FORMULAS else i for i in experiment_of(file).body or ()
    )
    return with_body(file, body)


# ------------------------------------------------------------------------------------------------------- printing


def printed(file: tree.File, random_layout: random.Random | None = None) -> str:
    """The file as text, with random layout and comments if a generator is given."""
    rng = random_layout
    lines: list[str] = []

    def gap() -> str:
        if rng is None or rng.random() < 0.8:
            return ""
        return rng.choice(["\n", "\n\n", "    # a remark\n", "  # lr = 3, not read { (\n"])

    def item(node: tree.Item, depth: int) -> None:
        indent = "  " * (depth if rng is None else rng.randint(0, 4))
        head = text_of(node.head)
        if node.body is not None:
            lines.append(f"{indent}{head} {{\n{gap()}")
            for inner in node.body:
                item(inner, depth + 1)
            lines.append(f"{indent}}}\n{gap()}")
        else:
            assert node.value is not None
            equals = " = " if rng is None else rng.choice([" = ", "=", "   =  ", " =\n        "])
            lines.append(f"{indent}{head}{equals}{text_of(node.value)}\n{gap()}")

    for node in file.items:
        item(node, 0)
    return "".join(lines)


# ------------------------------------------------------------------------------- rewrites that keep the meaning


def reorder_terms(file: tree.File, rng: random.Random) -> tree.File:
    """Terms of sums in another order."""

    def change(node: Any) -> Any:
        if not (isinstance(node, tree.Binary) and node.op in "+-"):
            return node
        terms = list(_terms(node, 1))
        rng.shuffle(terms)
        sign, first = terms[0]
        out = first if sign > 0 else tree.Unary("-", first, NOWHERE)
        for sign, term in terms[1:]:
            out = tree.Binary("+" if sign > 0 else "-", out, term, NOWHERE)
        return out

    return in_formulas(file, change)


def _terms(node: Any, sign: int) -> Iterator[tuple[int, Any]]:
    if isinstance(node, tree.Binary) and node.op in "+-":
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if node.op == "+" else -sign)
    elif isinstance(node, tree.Unary) and node.op == "-" and not isinstance(node.operand, tree.Number):
        yield from _terms(node.operand, -sign)
    else:
        yield sign, node


def reorder_operands(file: tree.File, rng: random.Random) -> tree.File:
    """Factors, sides of equations, conditions of `and` and `or`; `a < b` as `b > a`."""
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "*": "*", "and": "and", "or": "or"}

    def change(node: Any) -> Any:
        if isinstance(node, tree.Binary) and node.op in turned and rng.random() < 0.5:
            return replace(node, op=turned[node.op], left=node.right, right=node.left)
        return node

    return in_formulas(file, change)


def permute_sets(file: tree.File, rng: random.Random) -> tree.File:
    """Members of sets in formulas, and the labels that a user serves and a judge is on."""

    def shuffled(node: Any) -> Any:
        if not isinstance(node, tree.SetOf | tree.ListOf):
            return node
        items = list(node.items)
        rng.shuffle(items)
        return replace(node, items=tuple(items))

    file = in_formulas(file, lambda n: shuffled(n) if isinstance(n, tree.SetOf) else n)
    wired = ("serves", "on")
    return over(
        file,
        lambda n: replace(n, value=shuffled(n.value)) if isinstance(n, tree.Item) and kind_of(n) in wired else n,
    )


def expand_membership(file: tree.File, rng: random.Random) -> tree.File:
    """`x in {a, b}` as `x == a or x == b`."""

    def change(node: Any) -> Any:
        if isinstance(node, tree.Binary) and node.op == "in" and isinstance(node.right, tree.SetOf):
            tests = [tree.Binary("==", node.left, item, NOWHERE) for item in node.right.items]
            out: Any = tests[0]
            for test in tests[1:]:
                out = tree.Binary("or", out, test, NOWHERE)
            return out
        return node

    return in_formulas(file, change) if rng.random() < 0.5 else file


def respell_numbers(file: tree.File, rng: random.Random) -> tree.File:
    """Exponents, underscores, per cent, trailing zeros."""

    def change(node: Any) -> Any:
        return respelt(node, rng) if isinstance(node, tree.Number) and rng.random() < 0.5 else node

    body = tuple(
        replace(i, value=over(i.value, change)) if i.value is not None and kind_of(i) in FORMULAS
        else replace(i, body=over(i.body, change)) if i.body is not None and kind_of(i) in catalog()
        else i
        for i in experiment_of(file).body or ()
    )  # fmt: skip
    return with_body(file, body)


def respelt(node: tree.Number, rng: random.Random) -> tree.Number:
    digits = node.text.removesuffix(node.unit)
    if node.unit == "%":
        text = repr(node.value / 100)
        return node if float(text) != node.value / 100 else _number(text, "")
    options = [digits]
    if node.integral:
        plain = digits.replace("_", "")
        options += [plain, f"{int(plain):_}", plain + ".0"]
    elif "e" not in digits.lower():
        options += [digits + "0", f"{node.value!r}"]
        options += [t for t in (f"{node.value:.12e}",) if float(t) == node.value]
    return _number(rng.choice(options), node.unit)


def _number(text: str, unit: str) -> tree.Number:
    found = expression(text + unit)
    assert isinstance(found, tree.Number)
    return found


def add_provenance(file: tree.File, rng: random.Random) -> tree.File:
    """Wrap numbers of fields in `chosen(...)`, or take the provenance away."""

    def change(node: Any) -> Any:
        if not isinstance(node, tree.Item) or node.value is None:
            return node
        value = node.value
        if isinstance(value, tree.Number) and rng.random() < 0.4:
            return replace(node, value=expression(f'chosen({value.text}, "as good as any")'))
        sourced = isinstance(value, tree.Call) and isinstance(value.function, tree.Name)
        if sourced and value.function.value in ("reported", "assumed", "chosen") and rng.random() < 0.4:
            return replace(node, value=value.arguments[0].value)
        return node

    body = tuple(over(i, change) if kind_of(i) in catalog() else i for i in experiment_of(file).body or ())
    return with_body(file, body)


def rename_locals(file: tree.File, rng: random.Random) -> tree.File:
    """Other names for params and lets."""
    body = experiment_of(file).body or ()
    names = {i.head.labels[0].value: f"name_{rng.randrange(10**6)}" for i in body
             if kind_of(i) in ("param", "let") and i.head.labels}  # fmt: skip

    def change(node: Any) -> Any:
        return replace(node, value=names.get(node.value, node.value)) if isinstance(node, tree.Name) else node

    out = []
    for item in body:
        if kind_of(item) in ("param", "let"):
            labels = tuple(change(n) for n in item.head.labels)
            out.append(replace(item, head=replace(item.head, labels=labels), value=over(item.value, change)))
        elif item.value is not None:
            out.append(replace(item, value=over(item.value, change)))
        else:
            out.append(replace(item, body=tuple(_values(i, change) for i in item.body or ())))
    return with_body(file, tuple(out))


def _values(item: tree.Item, change: Callable[[Any], Any]) -> tree.Item:
    body = None if item.body is None else tuple(_values(i, change) for i in item.body)
    value = None if item.value is None else over(item.value, change)
    return replace(item, value=value, body=body)


def name_a_part(file: tree.File, rng: random.Random) -> tree.File:
    """A term of a reward becomes a `let`, a number of it a `param`."""
    body = list(experiment_of(file).body or ())
    rewards = [n for n, i in enumerate(body) if kind_of(i) == "reward"]
    if not rewards:
        return file
    place = rng.choice(rewards)
    item = body[place]
    fresh = f"part_{rng.randrange(10**6)}"
    if rng.random() < 0.5:
        terms = [t for _, t in _terms(item.value, 1) if not isinstance(t, tree.Number | tree.Name)]
        if not terms:
            return file
        on = f" : real@traj on {item.head.on.value}" if item.head.on else ""
        part, text = rng.choice(terms), f"let {fresh}{on} = "
    else:
        numbers: list[Any] = []
        over(item.value, lambda n: numbers.append(n) or n if isinstance(n, tree.Number) and not n.unit else n)
        if not numbers:
            return file
        part, text = rng.choice(numbers), f"param {fresh} : real = "
    named, _ = parser.parse(Source("rewrite", text + text_of(part)))
    value = over(item.value, lambda n: tree.Name(fresh, NOWHERE) if n == part else n)
    body[place] = replace(item, value=value)
    return with_body(file, (*body, named.items[0]))


def open_the_library(file: tree.File, rng: random.Random) -> tree.File:
    """`std.grpo(R)` as what the library says it is."""

    def change(node: Any) -> Any:
        if isinstance(node, tree.Call) and text_of(node.function) == "std.grpo":
            inner = text_of(node.arguments[0])
            return expression(f"zscore({inner} over traj, zero_variance = 0, epsilon = 1e-6, ddof = 1)")
        return node

    return in_formulas(file, change) if rng.random() < 0.5 else file


def reorder_items(file: tree.File, rng: random.Random) -> tree.File:
    """Declarations and fields in another order; stages keep theirs."""

    def shuffled(items: tuple[tree.Item, ...]) -> tuple[tree.Item, ...]:
        out = list(items)
        rng.shuffle(out)
        stages = iter([i for i in items if kind_of(i) == "stage"])
        return tuple(next(stages) if kind_of(i) == "stage" else i for i in out)

    def deep(item: tree.Item) -> tree.Item:
        known = kind_of(item) in (*catalog(), "mix")
        return replace(item, body=shuffled(item.body)) if item.body is not None and known else item

    return with_body(file, shuffled(tuple(deep(i) for i in experiment_of(file).body or ())))


def write_defaults(file: tree.File, rng: random.Random) -> tree.File:
    """A field that a spec leaves out, written with its default."""
    body = list(experiment_of(file).body or ())
    places = [n for n, i in enumerate(body) if kind_of(i) in catalog() and i.body is not None]
    place = rng.choice(places)
    item = body[place]
    assert item.head.type is not None
    schema = catalog()[kind_of(item)][text_of(item.head.type.base)]
    written = {kind_of(i) for i in item.body or ()}
    free = {n: i.default for n, i in schema.model_fields.items()
            if n not in written and isinstance(i.default, int | float)}  # fmt: skip
    if not free:
        return file
    name = rng.choice(sorted(free))
    value = str(free[name]).lower() if isinstance(free[name], bool) else repr(free[name])
    field, _ = parser.parse(Source("rewrite", f"{name} = {value}"))
    body[place] = replace(item, body=(*(item.body or ()), field.items[0]))
    return with_body(file, tuple(body))


def shorten_blocks(file: tree.File, rng: random.Random) -> tree.File:
    """`a { b = v }` as `a.b = v`."""

    def change(node: Any) -> Any:
        if not isinstance(node, tree.Item) or kind_of(node) not in catalog() or node.body is None:
            return node
        out: list[tree.Item] = []
        for inner in node.body:
            if inner.body and not inner.head.labels and rng.random() < 0.6:
                out += [replace(i, head=replace(i.head, path=(*inner.head.path, *i.head.path))) for i in inner.body]
            else:
                out.append(inner)
        return replace(node, body=tuple(out))

    return with_body(file, tuple(change(i) for i in experiment_of(file).body or ()))


def retitle(file: tree.File, rng: random.Random) -> tree.File:
    """Another title."""
    named, _ = parser.parse(Source("rewrite", f'title = "title {rng.randrange(10**6)}"'))
    body = tuple(i for i in experiment_of(file).body or () if kind_of(i) != "title")
    return with_body(file, (*named.items, *body))


REWRITES: tuple[Callable[[tree.File, random.Random], tree.File], ...] = (
    reorder_terms, reorder_operands, permute_sets, expand_membership, respell_numbers, add_provenance, rename_locals,
    name_a_part, open_the_library, reorder_items, write_defaults, shorten_blocks, retitle,
)  # fmt: skip


def rewritten(file: tree.File, rng: random.Random) -> tuple[str, list[str]]:
    """A text of the same meaning, and what was done to it."""
    chosen = rng.sample(REWRITES, rng.randint(1, 4))
    for rewrite in chosen:
        file = rewrite(file, rng)
    return printed(file, rng), [r.__name__ for r in chosen]


# ------------------------------------------------------------------------------------------- changes of one value


@dataclass(frozen=True, slots=True)
class Site:
    """A value in the text, with the paths that a diff must name when it changes. `choices` are other words for it."""

    span: tree.Span
    paths: frozenset[str]
    choices: tuple[str, ...] = ()


# Fields that a plan does not have, because they are short for another one.
SHORT_FOR = {"after_training": "after"}


def sites(file: tree.File) -> list[Site]:
    """Every value that a single change can be made to."""
    out: list[Site] = []
    body = experiment_of(file).body or ()
    params = {i.head.labels[0].value: i for i in body if kind_of(i) == "param" and i.head.labels}
    uses: dict[str, set[str]] = {name: set() for name in params}

    def values(node: Any, path: str) -> None:
        """Numbers of an expression, and the params that it reads."""

        def visit(inner: Any) -> Any:
            if isinstance(inner, tree.Number):
                out.append(Site(inner.span, frozenset([path])))
            if isinstance(inner, tree.Name) and inner.value in uses:
                uses[inner.value].add(path)
            return inner

        over(node, visit)

    def field(item: tree.Item, path: str, schema: Any) -> None:
        names = [n.value for n in item.head.path]
        for name in names[:-1]:
            schema = struct_of(schema.model_fields[name].annotation)
        info = schema.model_fields.get(names[-1])
        path = ".".join([path, *names[:-1], SHORT_FOR.get(names[-1], names[-1])])
        if item.body is not None:
            for inner in item.body:
                field(inner, path, struct_of(info.annotation) if info else schema)
            return
        value = item.value
        if isinstance(value, tree.Call) and text_of(value.function) in ("reported", "assumed", "chosen"):
            value = value.arguments[0].value
        choices = [c for c in get_args(info.annotation) if isinstance(c, str)] if info else []
        if isinstance(value, tree.Name) and value.value in choices:
            if others := tuple(c for c in choices if c != value.value):
                out.append(Site(value.span, frozenset([path]), others))
        elif isinstance(value, tree.Boolean):
            out.append(Site(value.span, frozenset([path]), (str(not value.value).lower(),)))
        elif isinstance(value, tree.Text):
            out.append(Site(value.span, frozenset([path]), ('"another text"',)))
        else:
            values(value, path)

    for item in body:
        kind = kind_of(item)
        if kind in catalog() and item.body is not None and item.head.type is not None:
            schema = catalog()[kind][text_of(item.head.type.base)]
            for inner in item.body:
                field(inner, f"{kind}.{item.head.labels[0].value}", schema)
        elif kind == "mix":
            for inner in item.body or ():
                values(inner.value, f"mix.{kind_of(inner)}")
        elif kind in ("reward", "advantage"):
            on = f" on {item.head.on.value}" if item.head.on else ""
            values(item.value, f"{kind}.{item.head.labels[0].value}{on}")
        elif kind == "seed":
            values(item.value, "seed")
    for name, item in params.items():
        found: list[tree.Number] = []
        over(item.value, lambda n, found=found: found.append(n) or n if isinstance(n, tree.Number) else n)
        out += [Site(n.span, frozenset(uses[name])) for n in found if uses[name]]
    return [s for s in out if not any(p.startswith("resources") for p in s.paths)]


def changed(text: str, site: Site, rng: random.Random) -> str:
    """The text with another value at a site."""
    old = text[site.span.start : site.span.stop]
    if site.choices:
        new = rng.choice(site.choices)
        new = f'"{rng.choice(["other", "another", "third"])} text {rng.randrange(1000)}"' if new[0] == '"' else new
    else:
        digits, unit = re.fullmatch(r"([0-9_.]+(?:[eE][+-]?[0-9]+)?)(.*)", old).groups()  # type: ignore[union-attr]
        value = float(digits.replace("_", ""))
        if re.fullmatch(r"[0-9_]+", digits):
            number: float = max(0, int(value) + rng.choice([-3, -2, -1, 1, 2, 3, 5, int(value), -int(value) // 2]))
        else:
            number = value * rng.choice([0.5, 0.75, 0.9, 1.1, 1.25, 2, 3]) if value else rng.choice([0.01, 0.1, 0.5])
        new = f"{float(f'{number:.6g}')!r}" if isinstance(number, float) else str(number)
        new += unit
    return text[: site.span.start] + new + text[site.span.stop :]
