"""Env strings come back as they were, whatever stands in them, and bad ones are refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.runtime.worlds.codegym.envstring import BadEnvString, EnvString, read, write

texts = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
hashable = st.integers() | texts | st.booleans()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts, inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
        | st.sets(hashable, min_size=1, max_size=1)
    ),
    max_leaves=8,
)
names = st.from_regex(r"[A-Za-z](?:_?[A-Za-z0-9]){0,8}", fullmatch=True)
ids = st.from_regex(r"[A-Za-z0-9_.:\-]{1,12}", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(st.none() | ids, names, st.dictionaries(texts, values, max_size=4))
def test_what_is_written_is_read_back_types_included(
    code_id: str | None, name: str, configuration: dict[str, Any]
) -> None:
    env = EnvString(code_id, name, configuration)
    back = read(write(env), class_name=name)
    assert (back.code_id, back.class_name) == (code_id, name)
    assert repr(back.configuration) == repr(configuration)


def test_at_signs_in_the_configuration_do_not_cut_it_short() -> None:
    text = 'codegym_v1@a__b__Mail@{"to": "x@y@z", "codegym_v1@": true, "none": null}'
    assert read(text) == EnvString("a__b", "Mail", {"to": "x@y@z", "codegym_v1@": True, "none": None})


def test_both_syntaxes_are_read() -> None:
    assert read("Tally@{'n': (1, 2), 'on': True}").configuration == {"n": (1, 2), "on": True}
    assert read('Tally@{"n": [1, 2], "on": true}').configuration == {"n": [1, 2], "on": True}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Tally", "no `@`"),
        ("codegym_v1@x@{}", "not <code id>__<class name>"),
        ("codegym_v1@__X@{}", "not <code id>__<class name>"),
        ("1x@{}", "no class name"),
        ("Tally@[1]", "not a mapping"),
        ("Tally@{1: 2}", "not a mapping"),
        ("Tally@__import__('os').getcwd()", "neither JSON nor a literal"),
        ('Tally@{"a": 1, "a": 2}', "twice"),
        ('Tally@{"a": NaN}', "NaN"),
        ("Tally@" + "[" * 200_000, "deeply|literal"),
        ("Tally@" + '{"a":' * 5_000, "deeply|literal"),
        ("Tally@{'a': '" + "x" * (1 << 20) + "'}", "more than"),
        ("A@{'f': 0x" + "f" * 9000 + "}", "cannot be written"),
        ("A@{'f': 1e999}", "not made of plain values"),
        ('A@{"f": 1e999}', "not made of plain values"),
        ("A@" + "-" * 100_000 + "1", "neither JSON nor a literal"),
        ("A@{'f': 'x' * 3}", "neither JSON nor a literal"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadEnvString, match=reason):
        read(text)


def test_another_class_is_refused() -> None:
    with pytest.raises(BadEnvString, match="this is a Tally, not a Queue"):
        read("Tally@{}", class_name="Queue")


@pytest.mark.parametrize(
    "env",
    [
        EnvString(None, "a__b", {}),
        EnvString("x@y", "A", {}),
        EnvString(None, "A", {"f": float("inf")}),
        EnvString(None, "A", {"f": object()}),
        EnvString(None, "A", {"f": 16**5000}),
    ],
)
def test_what_cannot_be_written_is_refused(env: EnvString) -> None:
    with pytest.raises(BadEnvString):
        write(env)
