"""Records against pydantic, which they stand in for: what is taken, what is refused and where, and what comes out."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler import records
from rlspec.compiler.records import Field, Record, Refused, ValidationError, create_model, model_validator

Share = Annotated[float, Field(ge=0.0, le=1.0)]
PydanticShare = Annotated[float, pydantic.Field(ge=0.0, le=1.0)]


class Inner(Record):
    share: Annotated[Share, Field(description="a share")] = 0.5
    label: Annotated[str, Field(min_length=1, max_length=3)] = "x"


class Whole(Record):
    """Everything that the catalog and plans use."""

    KIND: ClassVar[str] = "test"
    count: Annotated[int, Field(ge=1, lt=9, description="how many")]
    rate: Annotated[float, Field(gt=0)] = 0.1
    sort: Literal["a", "b", 3] = "a"
    on: bool = False
    inner: Inner = Inner()
    words: tuple[Annotated[str, Field(pattern=r"^[a-z]+$")], ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    table: dict[str, int] = Field(default_factory=dict)
    note: str | None = None
    anything: Any = None

    @model_validator(mode="after")
    def _rule(self) -> Self:
        if self.count > 5 and self.on:
            raise ValueError("too many")
        return self


class PydanticInner(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    share: Annotated[PydanticShare, pydantic.Field(description="a share")] = 0.5
    label: Annotated[str, pydantic.Field(min_length=1, max_length=3)] = "x"


class PydanticWhole(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    KIND: ClassVar[str] = "test"
    count: Annotated[int, pydantic.Field(ge=1, lt=9, description="how many")]
    rate: Annotated[float, pydantic.Field(gt=0)] = 0.1
    sort: Literal["a", "b", 3] = "a"
    on: bool = False
    inner: PydanticInner = PydanticInner()
    words: tuple[Annotated[str, pydantic.Field(pattern=r"^[a-z]+$")], ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    table: dict[str, int] = pydantic.Field(default_factory=dict)
    note: str | None = None
    anything: Any = None

    @pydantic.model_validator(mode="after")
    def _rule(self) -> Self:
        if self.count > 5 and self.on:
            raise ValueError("too many")
        return self


numbers = st.integers(-2, 12) | st.sampled_from([0.0, 0.5, 1.0, 1.5, -1.0, 3.0])
words = st.sampled_from(["", "a", "b", "abc", "abcd", "X y"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "count": numbers,
    "rate": numbers,
    "sort": words | numbers,
    "on": st.booleans(),
    "inner": st.fixed_dictionaries({}, optional={"share": numbers, "label": words, "strange": numbers}),
    "words": st.lists(words, max_size=3),
    "pair": st.lists(numbers, max_size=3),
    "table": st.dictionaries(words, numbers, max_size=2),
    "note": st.none() | words,
    "anything": st.none() | numbers | st.lists(words, max_size=2),
    "unknown": numbers,
}

# The kinds of problem that bear pydantic's names.
TYPES = {"missing", "extra_forbidden", "greater_than", "greater_than_equal", "less_than", "less_than_equal",
         "literal_error", "value_error", "string_too_short", "string_too_long", "string_pattern_mismatch"}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_the_same_is_taken_refused_and_given_back(values: dict[str, Any]) -> None:
    theirs, refused = None, []
    try:
        theirs = PydanticWhole.model_validate(values)
    except pydantic.ValidationError as error:
        refused = error.errors()
    if theirs is None:
        with pytest.raises(ValidationError) as ours:
            Whole.model_validate(values)
        assert {p["loc"][:1] for p in ours.value.errors()} == {p["loc"][:1] for p in refused}
        told = {(p["loc"], p["type"]) for p in ours.value.errors()}
        assert {(p["loc"], p["type"]) for p in refused if p["type"] in TYPES and p["loc"][:1] != ("pair",)} <= told
        return
    record = Whole.model_validate(values)
    assert record.model_dump(mode="json") == theirs.model_dump(mode="json")
    assert record.model_dump() == theirs.model_dump()
    assert repr(record.model_dump()) == repr(theirs.model_dump())  # 1 is not 1.0
    assert record.model_dump(exclude_defaults=True) == theirs.model_dump(exclude_defaults=True)
    assert record.model_fields_set == theirs.model_fields_set
    assert Whole.model_validate_json(record.model_dump_json()) == record
    assert PydanticWhole.model_validate_json(record.model_dump_json()) == theirs
    assert pickle.loads(pickle.dumps(record)) == copy.deepcopy(record) == record


def test_fields_tell_what_pydantics_do() -> None:
    for name, theirs in PydanticWhole.model_fields.items():
        ours = Whole.model_fields[name]
        assert (ours.is_required(), ours.description) == (theirs.is_required(), theirs.description)
        if not ours.is_required() and name != "inner":
            assert ours.get_default() == theirs.get_default(call_default_factory=True)
    assert list(Whole.model_fields) == list(PydanticWhole.model_fields)


def test_a_texts_digits_are_no_number() -> None:
    for wrong in ({"count": "3"}, {"count": True}, {"count": 3, "on": 1}, {"count": 3, "rate": "1"}, {"count": 2.5}):
        with pytest.raises(ValidationError):
            Whole.model_validate(wrong)


def test_a_record_is_frozen_and_copies_are_others() -> None:
    record = Whole(count=1)
    with pytest.raises(ValidationError, match="frozen"):
        record.count = 2  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        del record.count
    other = record.model_copy(update={"count": 2})
    assert (record.count, other.count) == (1, 2)
    assert record != other
    assert hash(Inner(share=1)) == hash(Inner(share=1.0))


def test_a_rule_may_refuse_with_a_code() -> None:
    class Refusing(Record):
        n: int = 0

        @model_validator(mode="after")
        def _rule(self) -> Self:
            raise Refused("RLC0514", "no {n}", {"n": self.n})

    with pytest.raises(ValidationError) as found:
        Refusing(n=3)
    (problem,) = found.value.errors()
    assert (problem["type"], problem["msg"], problem["ctx"]) == ("RLC0514", "no 3", {"n": 3})


def test_subclasses_keep_the_place_of_a_field() -> None:
    class More(Whole):
        rate: Annotated[float, Field(ge=2)] = 2.0
        last: int = 1

    assert list(More.model_fields) == [*Whole.model_fields, "last"]
    assert More(count=1).rate == 2.0
    with pytest.raises(ValidationError):
        More(count=1, rate=1.0)
    with pytest.raises(ValidationError, match="too many"):
        More(count=6, on=True)


def test_classes_made_at_run_time() -> None:
    made = create_model("Made", __doc__="Made.", **{"from": (Annotated[str, Field(min_length=1)], ...), "n": (int, 3)})
    assert made.__doc__ == "Made."
    assert made(**{"from": "x"}).model_dump() == {"from": "x", "n": 3}
    with pytest.raises(ValidationError, match="from"):
        made()


def test_pydantics_parts_are_refused_by_name() -> None:
    class Mixed(Record):
        n: Annotated[int, pydantic.Field(ge=0)] = 0

    class Ruled(Record):
        n: int = 0

        @pydantic.model_validator(mode="after")
        def _rule(self) -> Self:
            return self

    for wrong in (Mixed, Ruled):
        with pytest.raises(TypeError, match="records"):
            wrong(n=1)


def test_what_no_record_holds_is_refused() -> None:
    made = create_model("Made", n=(type[int], ...))
    with pytest.raises(TypeError):
        made(n=int)
    assert records.Undefined is Whole.model_fields["count"].default
