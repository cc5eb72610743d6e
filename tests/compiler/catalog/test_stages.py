from __future__ import annotations

import pytest

from rlspec.compiler.catalog import schema
from rlspec.compiler.catalog.base import Component, Struct
from rlspec.compiler.catalog.stages import Evaluate, Grpo, Sft, Stop, Warmup
from rlspec.compiler.records import ValidationError


def fields_of(model: type[Struct]):
    for name, field in model.model_fields.items():
        yield f"{model.__name__}.{name}", field
        if isinstance(field.annotation, type) and issubclass(field.annotation, Struct):
            yield from fields_of(field.annotation)


@pytest.mark.parametrize("stage", [Sft, Grpo, Evaluate])
def test_every_field_has_a_default_and_a_line_of_documentation(stage):
    for name, field in fields_of(stage):
        assert not field.is_required(), name
        assert field.description, name
    assert schema("stage", stage.NAME) is stage
    assert issubclass(stage, Component)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Grpo(group=1), "greater than or equal to 2"),
        (lambda: Grpo(lr=-1e-3), "greater than 0"),
        (lambda: Grpo(updates_per_step=17), "16 groups"),
        (lambda: Grpo(dual_clip=1.1), "dual_clip"),
        (lambda: Grpo(temperature=0), "greater than 0"),
        (lambda: Grpo(kl={"coefficient": -1}), "greater than or equal to 0"),
        (lambda: Grpo(clip_ratio=0.2), "Extra inputs"),
        (lambda: Sft(stop=Stop(loss=0.5)), "refused"),
        (lambda: Sft(batch=64, demonstrations=32), "batch"),
        (lambda: Warmup(shortest=40), "longest"),
        (lambda: Evaluate(trials=2), "pass\\^4"),
    ],
)
def test_what_cannot_work_is_refused(build, message):
    with pytest.raises(ValidationError, match=message):
        build()
