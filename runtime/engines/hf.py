"""The embedded engine: lock-step batched decoding over all live conversations, in the caller's process.

Every step, each live conversation consumes exactly one token: one that it was fed, or the one that was just
sampled for it. So user turns and tool results are read while other conversations sample, nothing is padded
and nothing is ever read twice. A closed conversation's slot is free for a new one while the others go on.
Stretches that all rows have to read (prompts) and long forced stretches go through in blocks. New weights
make every cached state stale: it is dropped, and read again with the new weights when the conversation goes
on.

    engine = HfEngine(model, capacity=128, context=320, temperature=1.0, max_new_tokens=48, stop_tokens=[2])

Sampling is by inverse distribution function from the caller's uniforms, accumulated in float64: what a
conversation says depends on its tokens, its uniforms and the weights, and on the other rows in the batch by
float rounding only.

Dimensions: S slots, M rows of a step, W rows that sample, L tokens, C context, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlspec.runtime.engines.decode import Limits, LoopingDecoder, Table
from rlspec.runtime.engines.decode_choice import make_decoder
from rlspec.runtime.engines.protocol import Finish, Sampled
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream

_REASONS: dict[int, Finish] = {1: "stop", 2: "turn_limit", 3: "context_limit"}
_BLOCK = 16384  # tokens in one block at most, so that a prompt's activations stay small
_HEAD_ROWS = 2048  # rows of logits at once when given tokens are scored


class HfEngine:
    """An `Engine` around a transformers model; see the module.

    The engine owns the model: weights are replaced in it, in place. `context` and `max_new_tokens` are in
    tokens.

    Raises:
        ValueError: a number is out of range.
        Refusal: RLC0505, the context is longer than the model's, or the model cannot be decoded step by step.
    """

    def __init__(
        self,
        model: Any,
        capacity: int,
        context: int,
        temperature: float,
        max_new_tokens: int,
        stop_tokens: Sequence[int],
        device: str | torch.device | None = None,
        chunk: int = 64,
    ) -> None:
        if capacity < 1 or context < 2 or max_new_tokens < 1 or chunk < 2 or not temperature > 0:
            raise ValueError("capacity, max_new_tokens >= 1, context, chunk >= 2 and temperature > 0 are needed")
        longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if longest is not None and context > longest:
            raise Refusal(
                "RLC0505",
                f"a context of {context} tokens does not fit a model of {longest}",
                "lower the context",
            )
        self._model = model.to(device).eval() if device is not None else model.eval()
        self._capacity, self._context, self._chunk = capacity, context, chunk
        self._vocabulary: int = model.config.get_text_config().vocab_size
        self._temperature = float(temperature)
        self._decoder = make_decoder(self._model, capacity, context)
        self._looping = self._decoder if isinstance(self._decoder, LoopingDecoder) else None
        self._version = -1
        self._slot: dict[str, int] = {}
        self._key: list[str] = []  # by slot; slots 0 ... len - 1 are in use
        self._table = Table.empty(capacity, context)
        self._limits = Limits(context, max_new_tokens, np.asarray(list(stop_tokens), dtype=np.int64))
        self._awaits_S = np.zeros(capacity, dtype=np.bool_)
        self._full_S = np.zeros(capacity, dtype=np.bool_)  # was fed more than the context holds

    @property
    def version(self) -> int:
        """Version of the weights in use, -1 before the first `load_weights`."""
        return self._version

    @property
    def capacity(self) -> int:
        """How many conversations may be open at once."""
        return self._capacity

    def configure(self, temperature: float, max_new_tokens: int) -> None:
        """Sampling settings of the messages that are asked for from now on.

        Raises:
            ValueError: a number is out of range.
        """
        if max_new_tokens < 1 or not temperature > 0:
            raise ValueError("max_new_tokens >= 1 and temperature > 0 are needed")
        self._temperature, self._limits = float(temperature), replace(self._limits, turn=max_new_tokens)

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Replace all weights. States that older weights cached are dropped and read again.

        Raises:
            ValueError: names or shapes are not those of the model; the weights are then undefined.
        """
        tied = set(getattr(self._model, "all_tied_weights_keys", None) or ())
        try:
            missing, unexpected = self._model.load_state_dict(dict(state), strict=False)
        except RuntimeError as error:
            raise ValueError(f"weights do not fit the model: {error}") from error
        missing = [name for name in missing if name not in tied]
        if missing or unexpected:
            raise ValueError(f"weights do not fit the model: missing {missing[:3]}, unexpected {unexpected[:3]}")
        self._decoder.refresh()
        self._table.read_S[:] = 0
        self._version = version

    def open(self, key: str, uniforms: NDArray[np.float64] | None, seed: int = 0) -> None:
        """Start a conversation in a free slot. Without uniforms they come from the seed and the key.

        Raises:
            KeyError: the key is open already.
            ValueError: no slot is free, or there are fewer uniforms than the context has positions.
        """
        if key in self._slot:
            raise KeyError(f"conversation {key!r} is open already")
        slot = len(self._key)
        if slot == self._capacity:
            raise ValueError(f"all {self._capacity} slots are in use")
        if uniforms is None:
            uniforms = stream(seed, "engine", key).random(self._context)
        if len(uniforms) < self._context:
            raise ValueError(f"{len(uniforms)} uniforms for a context of {self._context} tokens")
        self._slot[key] = slot
        self._key.append(key)
        table = self._table
        table.uniforms_SC[slot] = uniforms[: self._context]
        table.length_S[slot] = table.read_S[slot] = table.turn_S[slot] = 0
        self._awaits_S[slot] = self._full_S[slot] = False

    def feed(self, key: str, tokens: Sequence[int]) -> None:
        """Append tokens that the agent sees, and ask for its next message. May be called several times in a
        row. What does not fit the context ends the conversation: its next message is empty and says
        "context_limit".

        Raises:
            KeyError: no such conversation, or its message is being sampled.
            ValueError: a token is not in the vocabulary.
        """
        slot, table = self._slot[key], self._table
        self._check(tokens)
        start = int(table.length_S[slot])
        if self._awaits_S[slot] and start > table.turn_S[slot]:
            raise KeyError(f"conversation {key!r} is in the middle of a message")
        stop = start + len(tokens)
        if stop >= self._context:  # no room for even one token of an answer
            self._full_S[slot] = True
        else:
            table.tokens_SC[slot, start:stop] = tokens
            table.length_S[slot] = table.turn_S[slot] = stop
        self._awaits_S[slot] = True

    def poll(self) -> list[Sampled]:
        """Advance all conversations that await a message until at least one is finished; [] when none awaits.

        Raises:
            ValueError: a conversation was asked for a message before it was fed anything.
        """
        used = len(self._key)
        full = np.flatnonzero(self._awaits_S[:used] & self._full_S[:used])
        if full.size:
            return [self._finish(int(slot), "context_limit") for slot in full]
        rows = np.flatnonzero(self._awaits_S[:used])
        if not rows.size:
            return []
        if not self._table.length_S[rows].all():
            raise ValueError("a conversation begins with at least one token")
        ended = np.zeros(0, dtype=np.int64)
        if self._looping is not None:
            rows = rows[: self._looping.window]
            ended = self._looping.run(rows, self._table, self._limits, self._version, self._temperature)
        else:
            with torch.inference_mode():
                while not ended.any():
                    ended = self._advance(rows)
        return [self._finish(int(rows[n]), _REASONS[int(ended[n])]) for n in np.flatnonzero(ended)]

    def close(self, key: str) -> None:
        """Forget a conversation. The last slot's moves into its place, so that slots in use stay dense.

        Raises:
            KeyError: no such conversation.
        """
        slot, last = self._slot.pop(key), len(self._key) - 1
        moved = self._key.pop()
        if slot != last:
            self._key[slot] = moved
            self._slot[moved] = slot
            with torch.inference_mode():
                self._decoder.move(last, slot, int(self._table.read_S[last]))
            self._table.move(last, slot)
            self._awaits_S[slot], self._full_S[slot] = self._awaits_S[last], self._full_S[last]
        self._awaits_S[last] = False

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities of given tokens at the sampling temperature under the weights in use, each given
        its prefix; the first is NaN. Open conversations are not touched.

        Raises:
            ValueError: a sequence is longer than the context, or a token is not in the vocabulary.
        """
        for sequence in sequences:
            self._check(sequence)
            if len(sequence) > self._context:
                raise ValueError(f"{len(sequence)} tokens are more than the context of {self._context}")
        result: list[list[float]] = [[float("nan")] * len(sequence) for sequence in sequences]
        order = sorted(range(len(sequences)), key=lambda n: len(sequences[n]))
        at = 0
        while at < len(order):  # batches of similar lengths, padded on the right where causal rows do not look
            take = 1
            while at + take < len(order) and (take + 1) * len(sequences[order[at + take]]) <= _BLOCK:
                take += 1
            batch = order[at : at + take]
            at += take
            length = max(len(sequences[n]) for n in batch)
            if length < 2:
                continue
            tokens_ML = np.zeros((len(batch), length), dtype=np.int64)
            for row, n in enumerate(batch):
                tokens_ML[row, : len(sequences[n])] = sequences[n]
            scores = self._score(tokens_ML)
            for row, n in enumerate(batch):
                size = len(sequences[n])
                result[n][1:size] = scores[row, : max(size - 1, 0)].tolist()
        return result

    def _check(self, tokens: Sequence[int]) -> None:
        if len(tokens) and not 0 <= min(tokens) <= max(tokens) < self._vocabulary:
            raise ValueError(f"a token is not among the {self._vocabulary} of the vocabulary")

    def _score(self, tokens_ML: NDArray[np.int64]) -> NDArray[np.float64]:
        """(M, L - 1): log-probability of each token but the first."""
        rows, length = tokens_ML.shape
        with torch.inference_mode():
            states = self._decoder.score(tokens_ML)
            targets = torch.as_tensor(np.roll(tokens_ML, -1, axis=1).reshape(-1, 1), device=states.device)
            parts = [
                torch.log_softmax(self._decoder.head(states[n : n + _HEAD_ROWS]) / self._temperature, -1)
                .gather(-1, targets[n : n + _HEAD_ROWS])
                .double()
                .cpu()
                for n in range(0, rows * length, _HEAD_ROWS)
            ]
        return torch.cat(parts).view(rows, length).numpy()[:, :-1]

    def _advance(self, rows_M: NDArray[np.int64]) -> NDArray[np.int64]:
        """One step: rows consume tokens (all of them one, or as many as all have pending, or some a long
        stretch), and those that have none left sample. Returns (M,): 0 not ended, 1 stop, 2 turn limit, 3
        context limit."""
        table, ended_M = self._table, np.zeros(len(rows_M), dtype=np.int64)
        pending_M = table.length_S[rows_M] - table.read_S[rows_M]
        chosen = np.arange(len(rows_M))
        length = int(pending_M.min())
        if length == 1 and (pending_M >= self._chunk).any():
            chosen = np.flatnonzero(pending_M >= self._chunk)
            length = int(pending_M[chosen].min())
        if length > 1:
            length = min(length, _BLOCK)
            chosen = chosen[: max(1, _BLOCK // length)]
        slots_M = rows_M[chosen]
        start_M = table.read_S[slots_M]
        tokens_ML = table.tokens_SC[slots_M[:, None], start_M[:, None] + np.arange(length)]
        states = self._decoder.read(slots_M, tokens_ML, start_M)
        table.read_S[slots_M] += length
        samples_M = table.read_S[slots_M] == table.length_S[slots_M]
        if samples_M.any():
            if not samples_M.all():
                states = states[torch.as_tensor(np.flatnonzero(samples_M), device=states.device)]
            ended_M[chosen[samples_M]] = self._sample(slots_M[samples_M], states)
        return ended_M

    def _sample(self, slots_W: NDArray[np.int64], states: Any) -> NDArray[np.int64]:
        """Draw each row's next token; returns whether and how its message ends with it, as `_advance`."""
        table = self._table
        at_W = table.length_S[slots_W]
        logits_WV = self._decoder.head(states)
        if self._temperature != 1.0:
            logits_WV = logits_WV / self._temperature
        logprobs_WV = torch.log_softmax(logits_WV, -1)
        mass_WV = torch.cumsum(logprobs_WV.exp(), -1, dtype=torch.float64)
        uniforms_W1 = torch.as_tensor(table.uniforms_SC[slots_W, at_W], device=mass_WV.device)[:, None]
        total_W1 = mass_WV[:, -1:]
        # u < 1, but u * total may round up to total: the last token with mass is then the one
        below_W1 = torch.nextafter(total_W1, torch.zeros_like(total_W1))
        token_W1 = torch.searchsorted(mass_WV, torch.minimum(uniforms_W1 * total_W1, below_W1), right=True)
        token_W1.clamp_(max=logits_WV.shape[-1] - 1)  # mass that is not a number is reported when the message ends
        token_W = token_W1[:, 0].cpu().numpy()
        table.tokens_SC[slots_W, at_W] = token_W
        table.logprobs_SC[slots_W, at_W] = logprobs_WV.gather(-1, token_W1)[:, 0].cpu().numpy()
        table.versions_SC[slots_W, at_W] = self._version
        table.length_S[slots_W] = at_W + 1
        turn_W = at_W + 1 - table.turn_S[slots_W] >= self._limits.turn
        ended_W = np.where(turn_W, 2, np.where(at_W + 1 >= self._context, 3, 0))
        return np.where((token_W[:, None] == self._limits.stops).any(-1), 1, ended_W)

    def _finish(self, slot: int, reason: Finish) -> Sampled:
        table = self._table
        begin, end = int(table.turn_S[slot]), int(table.length_S[slot])
        if self._full_S[slot]:
            begin = end
        self._awaits_S[slot] = False
        table.turn_S[slot] = end
        logprobs = table.logprobs_SC[slot, begin:end]
        if not np.isfinite(logprobs).all():
            raise FloatingPointError(f"the logits of weights {self._version} are not finite")
        return Sampled(
            key=self._key[slot],
            tokens=table.tokens_SC[slot, begin:end].tolist(),
            logprobs=logprobs.tolist(),
            versions=table.versions_SC[slot, begin:end].tolist(),
            finish=reason,
        )
