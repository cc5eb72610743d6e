"""What a spec may say of how the agent words its messages.

    judge wording : wording { on = [math]  reflection = ["wait", "let me check"] }

Without a formula that reads it, it is a metric: how long messages are, and the share of them that reflect.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar


class Wording(Component):
    """Counts words by rule. `length` is the number of words that the agent says in a message, without the call in it;
    `reflects` is 1 where one of the declared words or phrases is among them, in any capitals and as whole words."""

    KIND: ClassVar[str] = "judge"
    NAME: ClassVar[str] = "wording"
    BY_RULE: ClassVar[bool] = True
    MEASURES: ClassVar[dict[str, str]] = {"length": "int@turn in [0, 1_000_000]", "reflects": "int@turn in {0, 1}"}

    reflection: Annotated[
        tuple[str, ...], Field(min_length=1, description="words and phrases that tell of a second thought")
    ] = ("wait", "hmm", "however", "alternatively", "let me check", "let me verify", "on second thought", "actually")
