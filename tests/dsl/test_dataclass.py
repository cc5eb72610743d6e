"""Our dataclass decorator against the standard one."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from dataclasses import field
from typing import Any

import pytest

from rlspec.dsl.dataclass import dataclass, names_of
from rlspec.dsl.dataclass import field as own_field
from rlspec.dsl.dataclass import replace as own_replace

OPTIONS = [{"frozen": f, "slots": s, "eq": e} for f in (False, True) for s in (False, True) for e in (False, True)]


def both(options: dict[str, bool]) -> list[Any]:
    """The same class by either decorator."""

    def body() -> type:
        class Point:
            """A point."""

            x: int
            label: str = "here"
            marks: list[int] = field(default_factory=list, compare=False)
            hidden: int = field(default=3, repr=False)
            made: int = field(init=False)

            def __post_init__(self) -> None:
                object.__setattr__(self, "made", self.x + 1)

            def doubled(self) -> int:
                return 2 * self.x

        return Point

    return [decorator(**options)(body()) for decorator in (dataclass, dataclasses.dataclass)]


@pytest.mark.parametrize("options", OPTIONS)
def test_it_does_what_the_standard_one_does(options: dict[str, bool]) -> None:
    for attempt in (
        lambda c: repr(c(1)),
        lambda c: repr(c(1, "there", marks=[2], hidden=4)),
        lambda c: (c(1) == c(1), c(1) == c(2), c(1, marks=[1]) == c(1), c(1) == 1, c(1).doubled(), c(1).made),
        lambda c: hash(c(1)) == hash(c(1)) if options["eq"] else None,
        lambda c: c(1).marks is c(1).marks,
        lambda c: c.__match_args__,
        lambda c: repr(dataclasses.replace(c(1, marks=[5]), x=7)),
        lambda c: dataclasses.asdict(c(1)),
        lambda c: [(f.name, f.default, f.init, f.repr, f.compare) for f in dataclasses.fields(c)],
        lambda c: dataclasses.is_dataclass(c),
        lambda c: repr(copy.deepcopy(c(1, marks=[5]))),
        lambda c: c.__doc__,
        lambda c: getattr(c, "__slots__", None),
        lambda c: hasattr(c, "label"),
        lambda c: c(),
        lambda c: c(1, 2, 3, 4, 5),
        lambda c: c(1, made=3),
        lambda c: setattr(c(1), "x", 2),
        lambda c: delattr(c(1), "x"),
        # where both are frozen and have slots, the standard one fails with another error of its own
        lambda c: None if options["frozen"] and options["slots"] else setattr(c(1), "unknown", 2),
    ):
        told = []
        for cls in both(options):
            try:
                told.append(attempt(cls))
            except Exception as error:
                told.append((type(error), re.sub(r".*__init__", "__init__", str(error))))
        assert told[0] == told[1]


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: tuple[int, ...] = ()


def test_instances_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(Pair(1, (2,)))) == Pair(1, (2,))


def test_a_standard_class_may_inherit() -> None:
    @dataclasses.dataclass(frozen=True)
    class Triple(Pair):
        last: int = 3

    assert repr(Triple(1)).endswith("Triple(left=1, right=(), last=3)")
    assert [f.name for f in dataclasses.fields(Triple)] == ["left", "right", "last"]


def test_what_it_does_not_know_is_the_standard_ones() -> None:
    @dataclass(order=True)
    class Ordered:
        x: int

    @dataclass(slots=True)
    class Inherits(Ordered):
        y: int = 0

    assert Ordered(1) < Ordered(2)
    assert Inherits(1, 2).y == 2


@pytest.mark.parametrize("options", OPTIONS)
def test_own_fields_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    def body(made: Any) -> type:
        class Point:
            x: int
            marks: list[int] = made(default_factory=list, compare=False)
            hidden: int = made(default=3, repr=False)

        return Point

    ours, theirs = dataclass(**options)(body(own_field)), dataclasses.dataclass(**options)(body(field))
    for attempt in (
        lambda c, r: repr(c(1)),
        lambda c, r: (c(1) == c(1, [2]), c(1).hidden, c(1).marks is c(1).marks),
        lambda c, r: repr(r(c(1, [5]), x=7)),
        lambda c, r: r(c(1, [5]), hidden=8).hidden,
        lambda c, r: [(f.name, f.init, f.repr, f.compare) for f in dataclasses.fields(c)],
    ):
        assert attempt(ours, own_replace) == attempt(theirs, dataclasses.replace)
    with pytest.raises(TypeError):
        own_replace(ours(1), unknown=1)
    assert names_of(ours(1)) == ("x", "marks", "hidden")
    assert names_of(theirs(1)) == names_of(ours) == names_of(3) == ()


def test_a_field_of_ours_in_a_standard_class() -> None:
    @dataclass(order=True)
    class Ordered:
        x: int = own_field(default=2)

    @dataclass
    class Inherits(Ordered):
        y: list[int] = own_field(default_factory=list)

    assert Ordered() == Ordered(2)
    assert own_replace(Inherits(), x=5) == Inherits(5, [])
