"""Problems with one checkable answer each: mathematics beside tools.

    env math : verified_answers { source = "arithmetic" }                       # made here, for small policies
    env math : verified_answers { source = "reasoning-gym/chain_sum"  settings = ["max_terms=2", "max_digits=1"] }
    env math : verified_answers { source = "deepscaler.jsonl" }                 # rows of problem and answer

The code that runs it is `rlspec.runtime.worlds.answers`.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Unit
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar, Literal


class VerifiedAnswers(Component):
    """Questions with one checkable answer each (mathematics). The agent is asked once and answers once; what it says
    last is compared with the answer, as numbers where both are. Nobody talks to it and it has no tools."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "verified_answers"
    GOLD_CALLS: ClassVar[bool] = False
    MEASURES: ClassVar[dict[str, str]] = {
        "verified": "int@traj in {0, 1}",
        "answered": "int@traj in {0, 1}",
        "dropped_rows": "int@traj",
    }
    source: Annotated[
        str,
        Field(
            min_length=1,
            description="`arithmetic`: short sums made here; `reasoning-gym/NAME`: a data set of that package; else a "
            "JSONL file of `problem` and `answer`, whose rows without an answer are dropped and counted",
        ),
    ]
    difficulty: Annotated[
        Literal["any", "easy", "medium", "hard"],
        Field(description="which rows of a file, by their field `difficulty`; of `arithmetic` how large numbers are"),
    ] = "any"
    settings: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[a-z_]+=.+$")], ...],
        Field(description="settings of a reasoning-gym data set, as `max_terms=2`"),
    ] = ()
    context: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one answer at most")] = 32_768
    test_share: Annotated[
        float, Field(gt=0.0, lt=1.0, description="share of all problems that belong to the test split, by their text")
    ] = 0.25
    shown_right: Annotated[
        float,
        Field(ge=0.0, le=1.0, description="share of a cold start's demonstrations whose answer is right"),
    ] = 0.5
    seed: Annotated[int, Field(ge=0, description="of the sequence of problems")] = 0
