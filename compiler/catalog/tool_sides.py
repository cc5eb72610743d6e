"""Tools that are neither shipped code nor a benchmark: an MCP server's, or ones that a language model plays.

    env desk : mcp    { url = "http://127.0.0.1:8080/mcp"  tasks = "tasks.jsonl"  state_tool = "final_state" }
    env desk : played { tools = "tools.json"  tasks = "tasks.jsonl"  model = "gpt-4.1" }

Tasks are JSON objects, one a line: `id`, `instruction`, and where they have them `gold` (calls: `name`, `arguments`),
`setup` (calls before the agent's first), `outputs` (texts that the agent has to say), `split`, `state` (what a model
that plays the tools is shown), `user` (what simulated users know). The code is `rlspec.runtime.worlds.mcp` and
`rlspec.runtime.worlds.played`.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Secret, Unit
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal, Self

NO_STATE = "tools that a model plays change no state that could be hashed; `verified` compares the writes with gold"


class _ToolSide(Component):
    """What both have: tasks from a file, limits, and what a cold start imitates."""

    MEASURES: ClassVar[dict[str, str]] = {
        "verified": "int@traj in {0, 1}",
        "right_writes": "int@traj in {0, 1}",
        "outputs_said": "int@traj in {0, 1}",
        "floor": "int@traj in {0, 1}",
        "reads": "int@traj",
        "writes": "int@traj",
        "errors": "int@traj",
    }
    KEEPS: ClassVar[tuple[str, ...]] = ("max_events", "max_messages", "reward_truncated")
    VERDICT: ClassVar[tuple[str, ...]] = ("verifier", "reward_truncated")

    tasks: Annotated[str, Field(min_length=1, description="JSONL file of tasks; see `docs/tools.md`")]
    system: Annotated[
        str, Field(description="file with the policy that the agent is shown; empty: what the server says of itself")
    ] = ""
    writing: Annotated[
        tuple[str, ...],
        Field(description="tools whose successful calls are writes; empty: all that are not marked as read-only"),
    ] = ()
    max_turns: Annotated[int, Unit("agent_turns"), Field(ge=1, description="messages of the agent before the cut")] = 30
    max_events: Annotated[
        int, Unit("events"), Field(ge=0, description="tool calls plus user replies before the cut; 0: no such limit")
    ] = 0
    max_messages: Annotated[
        int, Unit("messages"), Field(ge=0, description="messages of everybody before the cut; 0: no such limit")
    ] = 0
    reward_truncated: Annotated[bool, Field(description="whether a dialogue that was cut off is verified too")] = False
    test_share: Annotated[
        float, Field(ge=0.0, le=1.0, description="share of the tasks without a `split` that belong to the test split")
    ] = 0.25
    distilled: Annotated[
        str,
        Field(
            description="JSONL file of conversations (`messages`, as endpoints take them), which a cold start imitates"
        ),
    ] = ""
    timeout: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one call of a tool")] = 30.0
    at_once: Annotated[int, Field(ge=1, description="calls of tools that one worker waits for at a time")] = 16


class Mcp(_ToolSide):
    """The tools of a Model Context Protocol server. Each conversation has a session of its own; what goes wrong in a
    tool is an observation, what goes wrong with the server a failure of the trajectory. Solved is what the gold calls
    would have written, or the state that they would have left."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "mcp"
    MEASURES: ClassVar[dict[str, str]] = {**_ToolSide.MEASURES, "db_hash": "text@traj", "reference_hash": "text@traj"}

    command: Annotated[
        tuple[str, ...],
        Field(description="a program and its arguments, which serves over standard input and output; one process each"),
    ] = ()
    url: Annotated[str, Field(description="of a server that speaks streamable HTTP, instead of `command`")] = ""
    key: Annotated[Secret | None, Field(description='`secret("NAME")`, sent to `url` as a bearer token')] = None
    passes_on: Annotated[
        tuple[str, ...], Field(description="variables of this environment that `command` gets beside PATH and HOME")
    ] = ()
    opens_within: Annotated[
        float, Unit("s"), Field(gt=0, description="seconds in which the server must start and begin a session")
    ] = 60.0
    reuse: Annotated[
        bool,
        Field(
            description="one session serves one conversation after another, and the tasks' `setup` calls bring the "
            "server's state back to its beginning"
        ),
    ] = False
    hidden: Annotated[
        tuple[str, ...], Field(description="tools that the agent has not, beside the state's and those of `setup`")
    ] = ()
    state_tool: Annotated[
        str, Field(description="a tool without arguments whose answer is the whole state; empty: there is none")
    ] = ""
    verifier: Annotated[
        Literal["calls", "db_hash"],
        Field(
            description="what counts as solved: that the successful writes with their arguments are the gold ones, in "
            "any order; or that the hash of `state_tool`'s answer is the one that the gold calls leave"
        ),
    ] = "calls"

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError('say which server: `command = ["python", "server.py"]` or `url = "http://..."`')
        if self.key is not None and not self.url:
            raise ValueError("a key is sent to a `url`; a `command` gets it through `passes_on`")
        if self.verifier == "db_hash" and not self.state_tool:
            raise ValueError("`verifier = db_hash` needs the `state_tool` whose answer is hashed")
        return self

    def unmeasured(self) -> dict[str, str]:
        """Without a tool that tells the state there are no hashes."""
        why = "there is no hash without a `state_tool`; `verified` compares the writes with gold"
        return {} if self.state_tool else dict.fromkeys(("db_hash", "reference_hash"), why)


class Played(_ToolSide):
    """Tools that a language model plays: it is shown the schema of the tool, an excerpt of the database where the task
    has one, the calls so far with their results, and the call, and writes the result (MUA-RL, arXiv 2508.18669, made
    its cold start's dialogues so). An answer that is no result is a failure of the trajectory. There is no state, so
    what counts is which writes were made."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "played"
    MEASURES: ClassVar[dict[str, str]] = {**_ToolSide.MEASURES, "requests": "int@traj"}

    tools: Annotated[str, Field(min_length=1, description="JSON file: a list of OpenAI-style function schemas")]
    model: Annotated[str, Field(min_length=1, description="the endpoint's model name")]
    endpoint: Annotated[str, Field(description="base URL of the endpoint; empty: that of $OPENAI_BASE_URL")] = ""
    key: Annotated[Secret | None, Field(description='`secret("NAME")`; none: $OPENAI_API_KEY, if it is set')] = None
    temperature: Annotated[float, Field(ge=0, description="sampling temperature")] = 0.0
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one result at most")] = 1024
    verifier: Annotated[
        Literal["calls"],
        Field(description="what counts as solved: the successful writes are the gold ones, in any order"),
    ] = "calls"

    def unmeasured(self) -> dict[str, str]:
        """There is no state to hash."""
        return dict.fromkeys(("db_hash", "reference_hash"), NO_STATE)
