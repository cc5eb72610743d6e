"""What calls of models behind endpoints cost. `rlc plan` multiplies; nothing else reads it.

price judge : per_million_tokens { model = "gpt-4.1"  input = 2USD  output = 8USD }
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Unit
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar


class PerMillionTokens(Component):
    """The price of a model's tokens, input and output apart, as endpoints publish it. Users, judges and authors of
    that model name are counted with it."""

    KIND: ClassVar[str] = "price"
    NAME: ClassVar[str] = "per_million_tokens"
    model: Annotated[str, Field(min_length=1, description="the model's name, as users and judges give it")]
    input: Annotated[float, Unit("USD"), Field(ge=0, description="of a million tokens that the model reads")]
    output: Annotated[float, Unit("USD"), Field(ge=0, description="of a million tokens that the model writes")]
