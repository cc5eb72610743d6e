"""A policy that writes feedback: a case in, one diagnosis out, greedily, so that a case always has the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from rlspec.runtime.endpoints.chat import Spent
from rlspec.runtime.policies.chat import Dialogue, Renderer
from rlspec.runtime.policies.loading import load
from rlspec.runtime.worlds.diagnosticians import Case, Draft, case_text
from rlspec.runtime.worlds.leaks import leaked
from rlspec.runtime.worlds.protocol import Call, Message, Task


def fitting(renderer: Renderer, dialogue: Sequence[Message], place: int, gold: Sequence[Call], room: int) -> str:
    """The text of a case in at most `room` tokens: the attempt loses its first messages until it fits, and only the
    fault and the gold calls are left in the end."""
    first = 0
    while True:
        text = case_text(dialogue, place, gold, first)
        if first > place or first >= len(dialogue) or tokens_of(renderer, text) <= room:
            return text
        first += 1


def tokens_of(renderer: Renderer, text: str) -> int:
    """Tokens of a case as the policy reads it."""
    return sum(len(piece.tokens) for piece in renderer.opening(None, (), text))


def lesson(text: str, diagnosis: str) -> Dialogue:
    """A case and its diagnosis as a dialogue to learn from."""
    return Dialogue(None, (), [Message("user", text), Message("agent", diagnosis)])


class PolicyDiagnostician:
    """Loads what a `diagnostician` stage has saved. It writes one draft: asked again, it would write the same."""

    def __init__(self, folder: str, context: int, max_new_tokens: int, device: str = "cpu") -> None:
        self.model, tokenizer = load(Path(folder), "float32", device)
        self.renderer = Renderer(tokenizer)
        self.context, self.max_new_tokens = context, max_new_tokens

    def drafts(
        self, case: Case, task: Task, policy: str, fits: Callable[[str], bool] = lambda _: True
    ) -> tuple[list[Draft], Spent]:
        """The draft, and that it cost no request."""
        text = self.write(case.dialogue, case.place, task.gold)
        if leaked(text, task.gold):
            return [Draft(text, "leak")], Spent()
        return [Draft(text, "said" if text and fits(text) else "malformed")], Spent()

    def write(self, dialogue: Sequence[Message], place: int, gold: Sequence[Call]) -> str:
        """The diagnosis of a case; empty where the policy writes a call, or no end."""
        text = fitting(self.renderer, dialogue, place, gold, self.context - self.max_new_tokens)
        tokens = [token for piece in self.renderer.opening(None, (), text) for token in piece.tokens]
        sampled = continued(self.model, tokens, self.max_new_tokens, self.renderer.stop_token)
        if not sampled or sampled[-1] != self.renderer.stop_token:
            return ""
        message = self.renderer.read(sampled)
        return "" if message.call is not None or message.malformed is not None else message.text.strip()


@torch.no_grad()
def continued(model: torch.nn.Module, tokens: Sequence[int], count: int, stop: int) -> list[int]:
    """At most `count` tokens after these, each the likeliest, to the first `stop` with it."""
    device = next(model.parameters()).device
    ids, cache, out = torch.tensor([list(tokens)], device=device), None, list[int]()
    for _ in range(count):
        found = model(input_ids=ids, past_key_values=cache, use_cache=True)
        out.append(int(found.logits[0, -1].argmax()))
        if out[-1] == stop:
            break
        cache, ids = found.past_key_values, torch.tensor([[out[-1]]], device=device)
    return out
