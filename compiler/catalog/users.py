"""Users of one conversation beside the embedded shop's live one: static, recorded, scripted, or a language model.

MUA-RL's question (arXiv 2508.18669) is what a policy learns from each of them, examined with a live one:

    user customer : static { serves = [desk] }
    user live     : agenda { serves = [desk] }
    stage exam    : evaluate { after = [train]  user = live }
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Ref, Secret, Unit
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar, Literal


class StaticUser(Component):
    """A user who is not there: the whole request stands in the first message, and nothing follows it. The first message
    of the agent that is no tool call ends the conversation."""

    KIND: ClassVar[str] = "user"
    NAME: ClassVar[str] = "static"


class RecordedUser(Component):
    """The user's messages of recorded dialogues of the same task, replayed in their order whatever the agent says. In
    the shop they are made by a demonstrator that does everything right, unless they are read from somewhere."""

    KIND: ClassVar[str] = "user"
    NAME: ClassVar[str] = "recorded"
    source: Annotated[
        str,
        Field(
            description="where recordings are read: a log's folder, or a JSONL file of objects with `task` (id) and "
            "`messages` (`role`, `content`); empty: they are made"
        ),
    ] = ""
    of: Annotated[str, Ref("user"), Field(description="the live user that is recorded; none: `agenda` as it is")] = ""
    recordings: Annotated[int, Field(ge=1, le=64, description="recordings of each task that are made")] = 1
    at_the_end: Annotated[
        Literal["leave", "repeat"],
        Field(description="with the last recorded message: leave, or stay and say it again and again"),
    ] = "leave"


class ScriptedUser(Component):
    """A user that follows rules: it answers what is asked from the facts of its task, in fixed sentences, and never
    changes its mind. The same question has the same answer in every conversation of a task."""

    KIND: ClassVar[str] = "user"
    NAME: ClassVar[str] = "scripted"
    patience: Annotated[
        int, Unit("agent_turns"), Field(ge=0, description="useless turns that the user bears before it leaves")
    ] = 3


class LlmUser(Component):
    """A language model behind an OpenAI-compatible endpoint plays the user, live."""

    KIND: ClassVar[str] = "user"
    NAME: ClassVar[str] = "llm"
    MEASURES: ClassVar[dict[str, str]] = {"requests": "int@traj", "rejected_drafts": "int@traj"}
    model: Annotated[str, Field(min_length=1, description="the endpoint's model name")]
    endpoint: Annotated[str, Field(description="base URL of the endpoint; empty: that of $OPENAI_BASE_URL")] = ""
    key: Annotated[Secret | None, Field(description='`secret("NAME")`; none: $OPENAI_API_KEY, if it is set')] = None
    strategy: Annotated[
        Literal["plain", "react", "react_leaky", "verify", "reflect"],
        Field(description="react_leaky forwards the thought with the reply, as tau-bench v1 does"),
    ] = "plain"
    drafts: Annotated[
        int, Field(ge=1, description="drafts of one reply at most, for `verify` (tau-bench: 3) and `reflect` (2)")
    ] = 3
    temperature: Annotated[float, Field(ge=0, description="sampling temperature")] = 0.0
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one reply at most")] = 4096
    timeout: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one reply, all tries included")] = 60.0
    stop: Annotated[tuple[str, ...], Field(min_length=1, description="words of a reply that end the conversation")] = (
        "###STOP###",
    )
    at_once: Annotated[int, Field(ge=1, description="replies that one worker waits for at a time")] = 16
