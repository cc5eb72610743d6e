"""What a text becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.parser import parse, parse_expression, parse_type, read
from rlspec.dsl.printer import text_of
from rlspec.dsl.tree import (
    Argument,
    Binary,
    Call,
    Expression,
    File,
    Item,
    ListOf,
    Member,
    Name,
    Number,
    SetOf,
    Text,
    TypeExpr,
    Unary,
)

ROOT = Path(__file__).parents[2]
SPECS = [Path(__file__).with_name("sketches.rlspec"), *sorted(ROOT.glob("specs/**/*.rlspec"))]


def tree(text: str) -> File:
    file, diagnostics = parse(Source("test", text))
    assert not diagnostics
    return file


def item(text: str) -> Item:
    (only,) = tree(text).items
    return only


def expression(text: str) -> Expression:
    found, diagnostics = parse_expression(Source("test", text))
    assert not diagnostics
    assert found is not None
    return found


def grouped(node: object) -> str:
    """An expression with every operation in parentheses."""
    match node:
        case Binary(op=op, left=left, right=right):
            return f"({grouped(left)} {op} {grouped(right)})"
        case Unary(op=op, operand=operand):
            return f"({op} {grouped(operand)})"
        case _:
            return text_of(node)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_sketches_of_the_charter_and_the_shipped_specs_parse(path: Path) -> None:
    file, diagnostics = parse(read(path))
    assert not diagnostics
    assert file.items


# ------------------------------------------------------------------------------------------------------ items


def test_a_head_has_kind_labels_type_base_and_source() -> None:
    head = item('reward R "main" : real@traj in [-5, 11] extends base.R on retail = 1').head
    assert [n.value for n in head.path] == ["reward"]
    assert [n.value for n in head.labels] == ["R", "main"]
    assert head.type is not None
    assert text_of(head.type) == "real@traj in [-5, 11]"
    assert isinstance(head.extends, Member)
    assert head.on is not None
    assert head.on.value == "retail"
    assert head.parameters is None


def test_on_is_a_word_only_behind_a_type() -> None:
    block = item("judge on : llm { on = [a]  when = on  x = f(on = on) }")
    assert block.head.labels[0].value == "on"
    assert block.body is not None
    assert [i.head.path[0].value for i in block.body] == ["on", "when", "x"]


def test_where_and_over_may_name_arguments() -> None:
    call = expression("agent_tokens(A, where = top(entropy, 20%), over = 1)")
    assert isinstance(call, Call)
    assert [a.name.value for a in call.arguments if a.name] == ["where", "over"]


def test_a_patch_has_a_dotted_path() -> None:
    head = item("patch.advantage.A : real@turn = 1").head
    assert [n.value for n in head.path] == ["patch", "advantage", "A"]


def test_a_def_has_parameters_with_types_ranges_and_defaults() -> None:
    head = item("def f(r : real@turn, gamma : real in [0, 1] = 0.9,) : real@turn = r").head
    assert head.parameters is not None
    assert [text_of(p) for p in head.parameters] == ["r : real@turn", "gamma : real in [0, 1] = 0.9"]


def test_a_def_may_have_no_parameters_and_stand_on_several_lines() -> None:
    assert item("def f() : real = 1").head.parameters == ()
    assert len(item("def f(\n  a : real,\n  b : real\n) : real = a").head.parameters or ()) == 2


def test_blocks_nest_and_may_be_empty() -> None:
    outer = item("experiment e { env a : shop { }  kl { coefficient = 0 } }")
    assert outer.value is None
    assert outer.body is not None
    assert outer.body[0].body == ()


def test_layout_means_nothing_inside_of_a_value() -> None:
    spread = item("R : real@traj =\n    10 * a\n  - 5 * (\n b )\n")
    assert grouped(spread.value) == "((10 * a) - (5 * b))"


def test_a_flattened_file_parses_to_the_same_items() -> None:
    text = "experiment e {\nenv a : shop {\nn = 1\n}\nenv b : shop {\nn = 2\n}\n}\n"
    assert len(item(text).body or ()) == 2


def test_spans_are_the_text_that_was_read() -> None:
    text = "rlspec = 1\nreward R : real@traj = (a + b) * f(x, y = 2) [k]  # note\n"
    reward = tree(text).items[1]

    def shown(node: object) -> str:
        return text[node.span.start : node.span.stop]  # type: ignore[attr-defined]

    product = reward.value
    assert isinstance(product, Binary)
    assert shown(reward.head) == "reward R : real@traj"
    assert shown(product) == "(a + b) * f(x, y = 2) [k]"
    assert shown(product.left) == "(a + b)"
    assert shown(product.right) == "f(x, y = 2) [k]"
    assert shown(tree(text).comments[0]) == "# note"


# ------------------------------------------------------------------------------------------------ expressions


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a or b and c", "(a or (b and c))"),
        ("not a == b", "(not (a == b))"),
        ("not a and b", "((not a) and b)"),
        ("a + b < c - d", "((a + b) < (c - d))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b / c", "((a / b) / c)"),
        ("a + b * c", "(a + (b * c))"),
        ("-a ^ b", "(- (a ^ b))"),
        ("a ^ -b", "(a ^ (- b))"),
        ("a ^ b ^ c", "(a ^ (b ^ c))"),
        ("a * -b", "(a * (- b))"),
        ("- - a", "(- (- a))"),
        ("x in {0, 1}", "(x in {0, 1})"),
        ("x not in {0, 1}", "(x not in {0, 1})"),
        ("gamma ^ (num(turn) - index(turn)) * r", "((gamma ^ (num(turn) - index(turn))) * r)"),
        ("a.b[c](d).e", "a.b[c](d).e"),
    ],
)
def test_operators_bind_as_in_mathematics(text: str, meaning: str) -> None:
    assert grouped(expression(text)) == meaning


def argument(text: str) -> Argument:
    call = expression(f"f({text})")
    assert isinstance(call, Call)
    (only,) = call.arguments
    return only


def test_a_reduction_names_axes_alignment_and_condition() -> None:
    plain = argument("v over turn")
    assert [a.value for a in plain.over] == ["turn"]
    assert plain.align is plain.where is None
    assert [a.value for a in argument("v over (traj, turn)").over] == ["traj", "turn"]
    aligned = argument("v over traj align turn where v > 0")
    assert aligned.align is not None
    assert aligned.align.value == "turn"
    assert grouped(aligned.where) == "(v > 0)"


def test_over_takes_the_whole_expression_before_it() -> None:
    assert grouped(argument("a + b * c over turn").value) == "(a + (b * c))"


def test_lists_sets_and_calls_may_end_with_a_comma() -> None:
    assert isinstance(expression("[a, b,]"), ListOf)
    assert isinstance(expression("{a, b,}"), SetOf)
    assert isinstance(expression("f(a, b,)"), Call)
    assert expression("{}") == SetOf((), expression("{}").span)


@pytest.mark.parametrize(
    ("text", "value", "unit", "integral"),
    [
        ("16agent_turns", 16, "agent_turns", True),
        ("32_768tokens", 32768, "tokens", True),
        ("57.4%", 57.4, "%", False),
        ("6.1pp", 6.1, "pp", False),
        ("20s", 20, "s", True),
        ("1e-3", 1e-3, "", False),
        ("4e3steps", 4000, "steps", False),
        ("1_000.5", 1000.5, "", False),
        ("5e", 5, "e", True),
        ("0", 0, "", True),
    ],
)
def test_numbers_carry_their_unit(text: str, value: float, unit: str, integral: bool) -> None:
    number = expression(text)
    assert isinstance(number, Number)
    assert (number.value, number.unit, number.integral, number.text) == (value, unit, integral, text)


def test_texts_have_escapes() -> None:
    text = expression(r'"a\n\t\"\\ \u{3b3} # no comment"')
    assert isinstance(text, Text)
    assert text.value == 'a\n\t"\\ γ # no comment'


# ------------------------------------------------------------------------------------------------------ types


def spec_type(text: str) -> TypeExpr:
    found, diagnostics = parse_type(Source("test", text))
    assert not diagnostics
    assert found is not None
    return found


def test_types_have_base_level_and_range() -> None:
    full = spec_type("int@turn in {-1, 0, 1}")
    assert isinstance(full.base, Name)
    assert full.level is not None
    assert full.level.value == "turn"
    assert isinstance(full.range, SetOf)
    assert isinstance(spec_type("{gold, soft}@turn").base, SetOf)
    assert isinstance(spec_type("std.shop").base, Member)
    assert isinstance(spec_type("real in [0, 1]").range, ListOf)


def test_a_lone_expression_or_type_with_an_error_is_none() -> None:
    assert parse_expression(Source("test", "1 +"))[0] is None
    assert parse_expression(Source("test", "1 2"))[0] is None
    assert parse_type(Source("test", "real@"))[0] is None
    assert parse_expression(Source("test", ""))[1][0].code == "RLC0005"


# ------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "RLC0002"),
        (b"\n  # only a note\n\t\n", "RLC0002"),
        (b"\xef\xbb\xbf", "RLC0002"),
        (b"\x7fELF\x00\x01", "RLC0001"),
        (b'title = "\xff\xfe"', "RLC0001"),
        (b"a = 1 # " + b"x" * (1 << 20), "RLC0010"),
        (b"a = 1 # " + b"x" * (1 << 23), "RLC0010"),
    ],
)
def test_what_is_no_spec_is_refused_by_name(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "bad.rlspec"
    path.write_bytes(data)
    with pytest.raises(SpecError) as refused:
        read(path)
    assert [d.code for d in refused.value.diagnostics] == [code]


def test_a_file_that_is_not_there_or_a_folder_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.rlspec", tmp_path, tmp_path / "zero\0byte"):
        with pytest.raises(SpecError) as refused:
            read(path)
        assert refused.value.diagnostics[0].code == "RLC0701"


def test_a_byte_order_mark_and_windows_lines_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "windows.rlspec"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2 # note\r\n")
    file, diagnostics = parse(read(path))
    assert not diagnostics
    assert len(file.items) == 2
    assert file.comments[0].text == "# note"
