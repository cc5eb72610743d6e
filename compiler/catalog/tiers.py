"""What a spec may say of turn tiers: one label per turn of the agent, from the gold calls and the dialogue alone.

    judge tiers : tiers { on = [desk]  duplicates = successes  deep_equal.scalar_lists = any_order }
    signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier

The names are those of MT-GRPO with iterative reward calibration (arXiv 2604.02869). The paper says neither what goes
first when several apply nor what a duplicate is, so both are fields. The code that labels is `runtime/worlds/tiers.py`.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Struct
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal

Tier = Literal["gold", "soft", "read", "state", "msg", "err", "dup"]
TIERS: tuple[Tier, ...] = ("gold", "soft", "read", "state", "msg", "err", "dup")
PRIORITY: tuple[Tier, ...] = ("dup", "err", "gold", "soft", "state", "read", "msg")

Order = Literal["any_order", "in_order"]


class DeepEqual(Struct):
    """When two argument values are the same. A boolean is never a number, whatever is set here; a text that is no
    number equals only itself, to the letter; lists that mix objects with other things are compared in order."""

    numeric_strings: Annotated[
        bool,
        Field(description='"3" equals 3 and "3.0"; only plain decimals count, so "007" and "1e3" stay texts'),
    ] = True
    int_float: Annotated[bool, Field(description="3 equals 3.0")] = True
    missing: Annotated[
        tuple[Literal["none", "empty_text", "empty_list", "empty_object"], ...],
        Field(description="fields with such a value count as if they were not there, from the inside outwards"),
    ] = ("none", "empty_text", "empty_list", "empty_object")
    object_lists: Annotated[Order, Field(description="lists of objects: whether their order matters")] = "any_order"
    scalar_lists: Annotated[
        Order, Field(description="lists of texts, numbers, booleans and nulls: whether their order matters")
    ] = "in_order"


EXACT = DeepEqual(numeric_strings=False, int_float=False, missing=(), object_lists="in_order", scalar_lists="in_order")
"""Equal as JSON, but for the order of an object's fields: what `equal = exact` means."""


class Tiers(Component):
    """Labels each turn of the agent by rules: a gold call, a near one, a read, a write that is not gold, a message, an
    error, a duplicate. A pure function of gold calls and dialogue, so it labels logged conversations as well.

    `overlap` is the share of a gold call's arguments that the turn's call brings with equal values, of the gold call of
    its name where that share is largest; 0 where there is none."""

    KIND: ClassVar[str] = "judge"
    NAME: ClassVar[str] = "tiers"
    BY_RULE: ClassVar[bool] = True  # its labels follow from the gold calls: nobody's opinion
    NEEDS_GOLD: ClassVar[bool] = True
    MEASURES: ClassVar[dict[str, str]] = {
        "tier": "{gold, soft, read, state, msg, err, dup}@turn",
        "overlap": "real@turn in [0, 1]",
    }

    equal: Annotated[
        Literal["deep_equal", "exact"],
        Field(description="when two calls have the same arguments: by the rules below, or as JSON to the letter"),
    ] = "deep_equal"
    deep_equal: Annotated[DeepEqual, Field(description="the rules of deep_equal")] = DeepEqual()
    priority: Annotated[
        tuple[Tier, ...], Field(description="which tier a turn gets when several apply: the first of these")
    ] = PRIORITY
    duplicates: Annotated[
        Literal["history", "successes"],
        Field(description="a call repeats any earlier one, or only an earlier one that did not err"),
    ] = "history"
    gold_twice: Annotated[
        bool, Field(description="whether each gold call may be credited more than once; else it is used up")
    ] = False
    soft_above: Annotated[
        float, Field(ge=0, lt=1, description="a call of a gold call's name is soft when its overlap is above")
    ] = 0.0
    writes: Annotated[
        tuple[str, ...],
        Field(description="tools whose successful calls are writes; empty: whatever changed the state, as observed"),
    ] = ()

    @model_validator(mode="after")
    def _whole_order(self) -> Tiers:
        if sorted(self.priority) != sorted(TIERS):
            raise ValueError(f"priority must name each of {', '.join(TIERS)} once")
        return self
