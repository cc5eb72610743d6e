"""Components that the papers' specs name and that need what this machine may not have: benchmarks, endpoints.

They are checked and compiled here; `rlc run` refuses them by name until their runtime exists (`RUNS = False`).
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Secret, Unit
from rlspec.compiler.catalog.shop import OBJECTION
from rlspec.compiler.records import Field, Refused, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal, Self


class TauBench(Component):
    """tau-bench v1: retail and airline service desks with a database, a policy and a simulated user. `floor` is 1 where
    the database is the wanted one before anything is done."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "tau_bench"
    MEASURES: ClassVar[dict[str, str]] = {
        "verified": "int@traj in {0, 1}",
        "db_hash": "text@traj",
        "reference_hash": "text@traj",
        "outputs_said": "int@traj in {0, 1}",
        "floor": "int@traj in {0, 1}",
    }
    source: Annotated[
        str,
        Field(
            description="a folder with a folder per domain, of the benchmark's data: users.json, reservations.json, "
            "flights.json, tasks.json, tools.json, policy.md; empty: $RLSPEC_TAU_BENCH"
        ),
    ] = ""
    domain: Annotated[tuple[Literal["retail", "airline"], ...], Field(description="one domain or several")]
    split: Annotated[Literal["train", "dev", "test"], Field(description="tasks of which split")] = "train"
    max_turns: Annotated[int, Unit("agent_turns"), Field(ge=1, description="messages of the agent before the cut")] = 30
    max_events: Annotated[
        int,
        Unit("events"),
        Field(ge=0, description="tool calls plus user replies before the cut, as MUA-RL counts; 0: no such limit"),
    ] = 0
    max_messages: Annotated[
        int,
        Unit("messages"),
        Field(ge=0, description="messages of everybody before the cut, as tau2-bench counts steps; 0: no such limit"),
    ] = 0
    malformed_call: Annotated[
        Literal["answered", "ends"],
        Field(description="a call that cannot be read: the agent is told, or the conversation ends (MUA-RL's code)"),
    ] = "answered"
    context: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one dialogue at most")] = 32_768
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one message at most")] = 1024
    verifier: Annotated[Literal["db_hash", "write_operations"], Field(description="what counts as solved")] = "db_hash"
    calls_per_message: Annotated[
        Literal["first", "all"], Field(description="which tool calls of one message are executed")
    ] = "first"
    reward_truncated: Annotated[bool, Field(description="whether a dialogue that was cut off is verified too")] = False

    @model_validator(mode="after")
    def _split_that_there_is(self) -> Self:
        """The benchmark has 115, 500 and 20 tasks of retail to test, train and develop on, of airline 50 to test. What
        is in a folder of one's own a run will see."""
        if "airline" in self.domain and self.split != "test" and not self.source:
            raise Refused("RLC0505", "tau-bench's airline tasks have no {split} split, only `split = test`",
                          {"split": self.split})  # fmt: skip
        return self


class Bfcl(Component):
    """BFCL v4 multi-turn: the user's turns are written down, state and results are checked after each of them."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "bfcl"
    RUNS: ClassVar[bool] = False
    MEASURES: ClassVar[dict[str, str]] = {"verified": "int@traj in {0, 1}"}
    categories: Annotated[
        tuple[Literal["base", "miss_func", "miss_param", "long_context"], ...],
        Field(min_length=1, description="which of its four sets of 200 entries"),
    ] = ("base", "miss_func", "miss_param", "long_context")
    tasks: Annotated[int, Unit("tasks"), Field(ge=1, description="how many entries are trained on")] = 800
    max_turns: Annotated[int, Unit("agent_turns"), Field(ge=1, description="messages of the agent before the cut")] = (
        100
    )
    steps_per_turn: Annotated[
        int, Unit("agent_turns"), Field(ge=1, description="messages of the agent within one turn of the user")
    ] = 20
    context: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one dialogue at most")] = 32_768
    abstain: Annotated[
        Literal["strict", "upstream"],
        Field(description="strict: a call where gold has none is wrong; upstream: such turns are not checked"),
    ] = "upstream"


class WrittenUser(Component):
    """A benchmark's own user: its messages are written down in the task, one after another, whatever the agent says."""

    KIND: ClassVar[str] = "user"
    NAME: ClassVar[str] = "written"
    RUNS: ClassVar[bool] = False


class LlmJudge(Component):
    """A language model labels every turn of a finished dialogue: -1, 0 or +1."""

    KIND: ClassVar[str] = "judge"
    NAME: ClassVar[str] = "llm"
    MEASURES: ClassVar[dict[str, str]] = {"score": "int@turn in {-1, 0, 1}"}
    model: Annotated[str, Field(min_length=1, description="the endpoint's model name")]
    when: Annotated[
        Literal["after_trajectory", "during_rollout"],
        Field(description="one call per trajectory, or one per turn"),
    ] = "after_trajectory"
    objection: Annotated[
        str, Field(min_length=1, description="what the agent is told during the rollout behind the answer to a -1")
    ] = OBJECTION
    sees: Annotated[
        tuple[Literal["policy", "instruction", "gold_calls", "dialogue"], ...],
        Field(description="what the judge is shown beside the dialogue"),
    ] = ("policy", "instruction", "gold_calls", "dialogue")
    at_most_one_major: Annotated[bool, Field(description="at most one -1 per trajectory")] = True
    timeout: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one call")] = 120.0
    endpoint: Annotated[str, Field(description="base URL of the endpoint; empty: that of $OPENAI_BASE_URL")] = ""
    key: Annotated[Secret | None, Field(description='`secret("NAME")`; none: $OPENAI_API_KEY, if it is set')] = None
    temperature: Annotated[float, Field(ge=0, description="sampling temperature")] = 0.0
    at_once: Annotated[int, Field(ge=1, description="verdicts that one worker waits for at a time")] = 16
