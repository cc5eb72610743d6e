"""What the compiler has instead of `typing` takes annotations apart as `typing` does."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rlspec.dsl import annotations

TEXTS = [
    "int",
    "None | int",
    "int | float | None",
    "list[int]",
    "tuple[int, ...]",
    "tuple[int, str] | None",
    "Mapping[str, Any]",
    "Literal['a', 'b']",
    "Literal[Literal['a'], 1, None, True]",
    "Literal['a'] | None",
    "None | Literal['a']",
    "int | Literal['a', 'b']",
    "int | str | Literal['a'] | list[int]",
    "Literal['a'] | int | Literal['b']",
    "Annotated[int, 'x', 2]",
    "Annotated[Annotated[int, 1], 2]",
    "Annotated[Literal['a'], 1] | None",
    "Annotated[int | None, 1]",
    "tuple[Annotated[float, 1], Annotated[float, 2]]",
    "frozenset[Literal['a']]",
    "dict[str, Annotated[int, 1] | None]",
]


def shape(annotation: Any, of: Any) -> Any:
    """An annotation as plain tuples, as a module with `get_origin` and `get_args` sees it."""
    origin, args = of.get_origin(annotation), of.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        name = "Union"
    elif origin in (of.Annotated, of.Literal):
        name = "Annotated" if origin is of.Annotated else "Literal"
    elif origin is None:
        return "Any" if annotation is of.Any or annotation is typing.Any else annotation
    else:
        name = origin
    return name, tuple(shape(arg, of) if name != "Literal" else arg for arg in args)


def made(text: str, of: Any) -> Any:
    names = {name: getattr(of, name) for name in ("Annotated", "Literal", "Any")}
    return eval(text, {**names, "Mapping": Mapping, "Callable": Callable})


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_taken_apart_as_typing_does(text: str) -> None:
    expected = shape(made(text, typing), typing)
    assert shape(made(text, annotations), annotations) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_what_typing_made_is_understood(text: str) -> None:
    theirs, ours = made(text, typing), made(text, annotations)
    for annotation in (theirs, ours):
        assert shape(annotation, annotations) in (shape(ours, annotations), shape(theirs, typing))


def test_any_is_any() -> None:
    assert annotations.is_any(annotations.Any)
    assert annotations.is_any(typing.Any)
    assert not annotations.is_any(object)
    assert not annotations.is_any(annotations.Literal)


def test_equal_forms_are_equal() -> None:
    pairs = [(made(text, annotations), made(text, annotations)) for text in TEXTS]
    assert all(one == other and hash(one) == hash(other) for one, other in pairs)
    assert made("Literal['a']", annotations) != made("Literal['b']", annotations)
    assert made("Literal['a']", annotations) != "a"


def test_forms_show_what_they_are() -> None:
    assert repr(made("Annotated[int, 2]", annotations)) == "Annotated[int, 2]"
    assert repr(made("Literal['a'] | None", annotations)) == "Literal['a'] | NoneType"


def test_named_tuples_are_tuples_with_names() -> None:
    class Pair(annotations.NamedTuple):
        first: int
        second: str

        @property
        def both(self) -> str:
            return f"{self.first}{self.second}"

    pair = Pair(1, second="a")
    assert (pair, pair.both, pair._replace(first=2).first) == ((1, "a"), "1a", 2)
    assert isinstance(pair, tuple)
    with pytest.raises(TypeError):
        Pair(1)  # type: ignore[call-arg]
