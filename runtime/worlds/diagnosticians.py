"""Diagnosticians: who writes what is said about a failed attempt, beside the rule of `diagnosis.py`.

    drafts = LlmDiagnostician(config).drafts(case, task, policy)      # texts, each with the verdict on it
    said = settle(case, task.gold, feedback, "llm", drafts)           # what is said in the end, and whose words it is

What a diagnostician writes is a draft. One that gives a gold value away is rejected by the rule of `leaks.py`, whoever
wrote it; what is said instead is the spec's rule (`on_leak`, `on_failure`). Nothing else reaches the policy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from rlspec.compiler.catalog.diagnosticians import LlmDiagnosis
from rlspec.compiler.catalog.resampling import Feedback
from rlspec.runtime.endpoints.chat import Endpoint, Patience, Spent, object_in
from rlspec.runtime.secrets import reveal
from rlspec.runtime.worlds.leaks import leaked
from rlspec.runtime.worlds.llm_judge import lines
from rlspec.runtime.worlds.prompting import prompt
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Message, Task

Verdict = Literal["said", "leak", "malformed", "failed"]
Author = Literal["llm", "policy", "rule", "anything", ""]


@dataclass(frozen=True, slots=True)
class Case:
    """A failed attempt to be diagnosed, at task number `task` of the training split of `env`. `place` is that of the
    first fault in the dialogue (its length: the end), `rule` what the rule says of it, `room` the tokens that a text
    may take in the agent's context."""

    key: str
    env: str
    task: int
    dialogue: tuple[Message, ...]
    place: int
    rule: str
    room: int


def case_text(dialogue: Sequence[Message], place: int, gold: Sequence[Call], first: int = 0) -> str:
    """A failed attempt for a reader: gold calls, the dialogue from message `first` to the first fault and its answer,
    and the faulty message again."""
    return prompt(
        "diagnosis_case", gold=gold, dialogue=lines(dialogue[first : place + 2]), fault=_fault(dialogue, place)
    )


def _fault(dialogue: Sequence[Message], place: int) -> str:
    """The faulty message in one line."""
    if place >= len(dialogue):
        return "It ended, and the task was not done."
    return lines(dialogue[place : place + 1])[0].removeprefix("[1] agent: ")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a diagnostician wrote, or the reason why there is nothing, and the verdict on it."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of a case; `feedback` None: nothing, and there is no recovery. `by` tells whose words it is."""

    key: str
    feedback: str | None
    by: Author
    drafts: tuple[Draft, ...]
    spent: Spent = field(default_factory=Spent)


def settle(
    case: Case, gold: Sequence[Call], says: Feedback, author: Author, drafts: Sequence[Draft]
) -> tuple[str | None, Author]:
    """What is said after these drafts, and whose words it is. No text that gives a gold value away comes out."""
    last = drafts[-1]
    if last.verdict == "said" and not leaked(last.text, gold):
        return last.text, author
    otherwise = says.on_leak if last.verdict in ("leak", "said") else says.on_failure
    text = {"rule": case.rule, "anything": says.anything, "drop": None}[otherwise]
    if text is None or leaked(text, gold):
        return None, ""
    return text, "rule" if otherwise == "rule" else "anything"


class Written(BaseModel):
    """The whole answer."""

    model_config = ConfigDict(extra="forbid")
    feedback: str


class LlmDiagnostician:
    """A language model behind an endpoint. A draft that leaks or is malformed is shown to it, and it writes another."""

    def __init__(self, config: LlmDiagnosis) -> None:
        self.config = config
        if config.key is not None:
            reveal(config.key)  # from now on its value is kept out of messages
        variable = config.key.secret if config.key is not None else "OPENAI_API_KEY"
        patience = Patience(config.timeout, 1 + config.retries)
        self.endpoint = Endpoint(config.model, config.endpoint, variable, patience, config.at_once)

    def drafts(
        self, case: Case, task: Task, policy: str, fits: Callable[[str], bool] = lambda _: True
    ) -> tuple[list[Draft], Spent]:
        """Drafts until one may be said, and what they cost. `fits` tells whether there is room for a text."""
        endpoint = self.endpoint.apart()
        asked = [{"role": "user", "content": self.text(case, task, policy)}]
        out: list[Draft] = []
        for _ in range(self.config.drafts):
            try:
                answer = endpoint.say(asked, self.config.temperature, max_tokens=self.config.max_new_tokens)
            except InfraFailure as failure:
                out.append(Draft(failure.reason, "failed"))
                break
            draft, problem = self._read(answer, task.gold, fits)
            out.append(draft)
            if draft.verdict == "said":
                break
            asked += [
                {"role": "assistant", "content": answer},
                {"role": "user", "content": f"That cannot be used: {problem}. Answer again, the JSON object alone."},
            ]
        return out, endpoint.spent

    def _read(self, answer: str, gold: Sequence[Call], fits: Callable[[str], bool]) -> tuple[Draft, str]:
        try:
            text = " ".join(Written.model_validate(object_in(answer)).feedback.split())
        except (ValidationError, ValueError):
            return Draft(answer, "malformed"), "it is not the JSON object that was asked for"
        if not text:
            return Draft(answer, "malformed"), "the message is empty"
        if leaked(text, gold):
            return Draft(text, "leak"), "it gives a value away that the agent has to find for itself"
        if len(text) > self.config.longest or not fits(text):
            return Draft(text, "malformed"), "the message is too long"
        return Draft(text, "said"), ""

    def text(self, case: Case, task: Task, policy: str) -> str:
        """What the model is asked."""
        sees = self.config.sees
        return prompt(
            "diagnosis",
            policy=policy if "policy" in sees else "",
            instruction=task.instruction if "instruction" in sees else "",
            gold=task.gold if "gold_calls" in sees else (),
            dialogue=lines(case.dialogue[0 if "dialogue" in sees else case.place : case.place + 2]),
            fault=_fault(case.dialogue, case.place),
        )


def as_json(message: Message) -> dict[str, object]:
    """A message of the dialogue for a file: what is not empty."""
    call = {"name": message.call.name, "arguments": message.call.arguments} if message.call is not None else None
    found = {"role": message.role, "text": message.text, "call": call, "status": message.status,
             "wrote": message.wrote or None, "malformed": message.malformed}  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def identity(case: Case) -> str:
    """What a case is, as a text: equal cases have equal ones."""
    shown = [as_json(message) for message in case.dialogue]
    return json.dumps([case.key, case.env, case.task, case.place, case.rule, case.room, shown], sort_keys=True)
