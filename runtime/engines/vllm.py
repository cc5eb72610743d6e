"""The vLLM engine: conversations, token ids in and out, sampled by vLLM's scheduler inside this process.

    engine = VllmEngine("policy/", capacity=16, context=512, temperature=0.7, max_new_tokens=64, stop_tokens=[3])
    engine.load_weights(model.state_dict(), version=0)
    engine.open("t3/r1", None, seed=7)
    engine.feed("t3/r1", prompt_tokens)
    engine.poll()

Every message is one vLLM request over the whole context; vLLM's prefix cache keeps the earlier turns, so a
turn prefills its new tokens only. Done here is what vLLM leaves to its user and gets wrong in silence when
the user forgets (docs/vllm.md has the measurements):

- log-probabilities are those of the tempered distribution (`processed_logprobs`), and the checkpoint's own
  generation config never touches sampling;
- new weights drop every cached key and value of the old ones, also those of requests in flight: these keep
  their sampled tokens and continue under the new weights, and each token carries the version that sampled it;
- after every update a probe is scored by vLLM and by transformers; a difference is a refusal
  (`weight_probe`).

vLLM is imported when an engine is made, never with this module.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlspec.runtime.engines.protocol import Finish, Sampled
from rlspec.runtime.engines.vllm_process import import_vllm, process_state_kept, without_llvmlite
from rlspec.runtime.engines.weight_probe import WeightProbe
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import derived_seed

BLOCK = 32  # tokens per key-value block, the smallest of the CPU kernels: prefixes are shared in units of it
SCORERS = 8  # requests of `logprobs` in the batch beyond `capacity`, so that a full engine can be probed
PROBE_LENGTH = 48


class VllmEngine:
    """An `Engine` (see `protocol`) over vLLM's in-process engine, in float32.

    `folder`: a Hugging Face checkpoint (config and weights; a tokenizer is not needed). `context`: the most
    tokens of a conversation. `max_new_tokens`: the most tokens of a message. `stop_tokens`: ids that end a
    message; no other id does, not even the checkpoint's own end-of-sequence. `temperature`: at least 0.01,
    below which vLLM samples from another distribution than asked for.

    vLLM's state is process-wide: `shutdown` one engine before the next is made.

    Raises:
        ValueError: a number is out of range.
        Refusal: RLC0710, vLLM is missing, or its CPU kernels have no attention heads of the model's size;
            RLC0505, the context is longer than the model's.
    """

    def __init__(
        self,
        folder: str | Path,
        capacity: int,
        context: int,
        temperature: float,
        max_new_tokens: int,
        stop_tokens: Sequence[int],
    ) -> None:
        if capacity < 1 or context < 3:
            raise ValueError("capacity >= 1 and context >= 3 are needed")
        self.configure(temperature, max_new_tokens)
        self._vllm = import_vllm()
        self._probe = WeightProbe(folder, min(PROBE_LENGTH, context - 1))
        config = self._probe.config
        longest = int(config.max_position_embeddings)
        if context > longest:
            reason = f"a context of {context} tokens does not fit a model of {longest}"
            raise Refusal("RLC0505", reason, "lower the context")
        self._vocabulary = int(config.vocab_size)
        self._capacity, self._context, self._stop_tokens = capacity, context, list(stop_tokens)
        # One more than the context, because vLLM samples a token after every sequence that it scores.
        self._max_length = min(context + 1, longest)
        with process_state_kept(), without_llvmlite():
            self._engine = self._vllm.LLMEngine.from_engine_args(self._engine_args(folder, config))
        self._conversations: dict[str, _Conversation] = {}
        self._fed: dict[str, _Conversation] = {}  # by key: await a message, and vLLM does not know yet
        self._sampling: dict[str, _Conversation] = {}  # by request
        self._scores: dict[str, Any] = {}  # by request, until taken
        self._finished: list[Sampled] = []
        self._requests = map(str, itertools.count())
        self._version = -1
        self.load_weights(self._probe.take_weights(), -1)

    @property
    def version(self) -> int:
        """Version of the weights in use, -1 before the first `load_weights` (these are the folder's)."""
        return self._version

    @property
    def capacity(self) -> int:
        """How many conversations may be open at once."""
        return self._capacity

    def configure(self, temperature: float, max_new_tokens: int) -> None:
        """Sampling settings of the messages that are asked for from now on. Raises ValueError out of range."""
        if temperature < 0.01 or max_new_tokens < 1:
            raise ValueError("temperature >= 0.01 and max_new_tokens >= 1 are needed")
        self._temperature, self._max_new_tokens = float(temperature), max_new_tokens

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Replace all weights and check that vLLM computes what they say. Messages in flight go on under
        them.

        `state` is copied. Raises Refusal RLC0708 when it has not exactly the model's parameters, or when
        vLLM's log-probabilities of the probe are not theirs (nothing arrived, or not all of it).
        """
        tensors = self._probe.fitting(state)
        named = ((name, tensors[first_name]) for name, first_name in self._probe.names.items())
        self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": named})
        # Requests in flight are preempted and compute their keys and values anew: with the old ones left in
        # place, their next log-probabilities would belong to neither version.
        self._engine.reset_prefix_cache(reset_running_requests=True)
        self._engine.set_weight_version(str(version))
        self._version = version
        (seen,) = self._score([self._probe.tokens], temperature=1.0)
        self._probe.check(tensors, seen, version)

    def open(self, key: str, uniforms: NDArray[np.float64] | None, seed: int = 0) -> None:
        """Start a conversation. vLLM draws with a generator of its own, seeded by `seed`, the key and the turn;
        `uniforms` is not used. Raises KeyError for an open key, ValueError when no slot is free.
        """
        if key in self._conversations:
            raise KeyError(f"conversation {key!r} is open already")
        if len(self._conversations) == self._capacity:
            raise ValueError(f"all {self._capacity} slots are in use")
        self._conversations[key] = _Conversation(key, seed)

    def feed(self, key: str, tokens: Sequence[int]) -> None:
        """Append tokens and ask for the next message. May be called several times in a row. A context that has
        no room for an answer is answered with an empty message.

        Raises KeyError for a key that is not open or whose message is being sampled, ValueError for ids outside
        the vocabulary.
        """
        conversation = self._conversations[key]
        if conversation.request is not None or any(message.key == key for message in self._finished):
            raise KeyError(f"conversation {key!r} is in the middle of a message")
        self._check_tokens(tokens)
        conversation.tokens.extend(tokens)
        self._fed[key] = conversation

    def poll(self) -> list[Sampled]:
        """Advance all conversations that await a message until at least one is finished; [] when none awaits.

        Raises ValueError when one of them was fed nothing at all.
        """
        if not all(conversation.tokens for conversation in self._fed.values()):
            raise ValueError("a conversation begins with at least one token")
        for conversation in self._fed.values():
            self._start(conversation)
        self._fed.clear()
        while self._sampling and not self._finished:
            self._step()
        finished, self._finished = self._finished, []
        return finished

    def close(self, key: str) -> None:
        """Forget a conversation and abort its message. Raises KeyError for a key that is not open."""
        conversation = self._conversations.pop(key)
        self._fed.pop(key, None)
        if conversation.request is not None:
            self._engine.abort_request([conversation.request])
            del self._sampling[conversation.request]
        self._finished = [message for message in self._finished if message.key != key]

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities (nats, at the sampling temperature) of given tokens, the first of each NaN.

        Messages in flight advance meanwhile. vLLM scores prompts at temperature 1 only: at any other, whole
        rows of the vocabulary are fetched and tempered here, which suits a probe but not a batch of a large
        vocabulary. Raises ValueError for a sequence longer than the context (or as long, when the model has no
        position more).
        """
        return self._score(sequences, self._temperature)

    def _score(self, sequences: Sequence[Sequence[int]], temperature: float) -> list[list[float]]:
        for tokens in sequences:
            self._check_tokens(tokens)
            if len(tokens) >= self._max_length:
                raise ValueError(f"{len(tokens)} tokens are more than the {self._max_length - 1} to score")
        options = {"prompt_logprobs": 0 if temperature == 1.0 else -1, "skip_reading_prefix_cache": True}
        requests = [self._ask(tokens, 1, 0, **options) if len(tokens) > 1 else None for tokens in sequences]
        while any(request is not None and request not in self._scores for request in requests):
            self._step()
        return [
            [math.nan] * len(tokens) if request is None else _tempered(self._scores.pop(request), temperature)
            for tokens, request in zip(sequences, requests, strict=True)
        ]

    def shutdown(self) -> None:
        """Free the model, the caches and vLLM's process group; the engine is of no use afterwards."""
        self._engine.engine_core.shutdown()

    def _engine_args(self, folder: str | Path, config: Any) -> Any:
        """vLLM's settings; those that are not sizes keep it from answering another question than
        was asked."""
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        sizes = self._vllm.head_sizes
        if sizes and head_size not in sizes:
            reason = f"the model's attention heads have size {head_size}, vLLM's CPU build has {sizes}"
            raise Refusal("RLC0710", reason, "use hf, or heads of such a size")
        # Room for every conversation and scorer at full length, so that vLLM preempts none of its own accord.
        blocks = (self._capacity + SCORERS) * (math.ceil(self._max_length / BLOCK) + 1)
        token_bytes = 2 * 4 * config.num_hidden_layers * config.num_key_value_heads * head_size
        return self._vllm.EngineArgs(
            model=str(folder),
            skip_tokenizer_init=True,
            dtype="float32",
            load_format="dummy",  # the folder's weights go in as all later ones do, and are checked
            # On the CPU a tied output layer has a packed copy of its own, which a reload would leave as it
            # was.
            hf_overrides={"tie_word_embeddings": False},
            enforce_eager=True,
            max_model_len=self._max_length,
            max_num_seqs=self._capacity + SCORERS,
            # No prefill is cut in two: after the first part vLLM rewinds the generator of a seeded request,
            # which a CPU generator cannot do.
            enable_chunked_prefill=False,
            max_num_batched_tokens=max(2048, self._max_length),
            block_size=BLOCK,
            kv_cache_memory_bytes=blocks * BLOCK * token_bytes,
            enable_prefix_caching=True,
            async_scheduling=False,  # when a step returns, none is in flight: versions and resets are exact
            logprobs_mode="processed_logprobs",
            generation_config="vllm",  # not the checkpoint's own top-p, top-k and penalties
            max_logprobs=-1,
            disable_log_stats=True,
        )

    def _start(self, conversation: _Conversation) -> None:
        """Ask vLLM for a conversation's next message, or finish it when its context is full."""
        room = self._context - len(conversation.tokens)
        if room <= 0:
            self._finish(conversation, Sampled(conversation.key, [], [], [], "context_limit"))
            return
        seed = derived_seed(conversation.seed, "engine", conversation.key, conversation.turn)
        request = self._ask(conversation.tokens, min(room, self._max_new_tokens), seed, logprobs=0)
        conversation.request = request
        conversation.at_limit = "turn_limit" if room >= self._max_new_tokens else "context_limit"
        self._sampling[request] = conversation

    def _ask(self, tokens: Sequence[int], max_tokens: int, seed: int, **options: Any) -> str:
        """One vLLM request: sampling from the whole tempered distribution, ended by declared tokens only."""
        request = next(self._requests)
        params = self._vllm.SamplingParams(
            temperature=self._temperature,
            top_p=1.0,
            top_k=0,
            min_p=0.0,
            seed=seed,
            max_tokens=max_tokens,
            stop_token_ids=self._stop_tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=self._vllm.RequestOutputKind.FINAL_ONLY,
            flat_logprobs=True,
            **options,
        )
        (prompt,) = self._engine.renderer.render_cmpl([{"prompt_token_ids": list(tokens)}])
        self._engine.add_request(request, prompt, params)
        return request

    def _step(self) -> None:
        """One forward pass of the batch; finished messages and scores are put where they are awaited."""
        # vLLM's compiled sampling functions take 20 s to compile at first use and save nothing at this size.
        # Its CPU sampler draws from the process's generator even when every request is seeded.
        with torch.compiler.set_stance("force_eager"), torch.random.fork_rng(devices=[]):
            outputs = self._engine.step()
        for output in outputs:
            (completion,) = output.outputs
            if completion.finish_reason not in ("stop", "length"):
                raise RuntimeError(f"vLLM ended a request with {completion.finish_reason!r}: {output}")
            if output.prompt_logprobs is not None:
                self._scores[output.request_id] = output.prompt_logprobs
            else:
                conversation = self._sampling.pop(output.request_id)
                self._finish(conversation, self._sampled(conversation, completion))

    def _sampled(self, conversation: _Conversation, completion: Any) -> Sampled:
        """vLLM's completion as a message."""
        tokens, logprobs = list(completion.token_ids), list(completion.logprobs.logprobs)
        spans = completion.weight_versions
        versions = [int(span.version) for span in spans for _ in range(span.start, span.end)]
        if not len(tokens) == len(versions) == len(logprobs):
            raise RuntimeError(f"vLLM labelled {len(tokens)} tokens with {len(versions)} weight versions")
        finish: Finish = "stop" if completion.finish_reason == "stop" else conversation.at_limit
        return Sampled(conversation.key, tokens, logprobs, versions, finish)

    def _finish(self, conversation: _Conversation, message: Sampled) -> None:
        conversation.tokens.extend(message.tokens)
        conversation.turn += 1
        conversation.request = None
        self._finished.append(message)

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        if any(not 0 <= token < self._vocabulary for token in tokens):
            raise ValueError(f"a token is outside the vocabulary of {self._vocabulary}")


@dataclass(slots=True)
class _Conversation:
    """`tokens`: the context so far; `request`: the message that vLLM samples; `at_limit`: how that ends when
    no stop token ends it."""

    key: str
    seed: int
    turn: int = 0
    tokens: list[int] = field(default_factory=list)
    request: str | None = None
    at_limit: Finish = "turn_limit"


def _tempered(flat: Any, temperature: float) -> list[float]:
    """Log-probabilities of a prompt's own tokens at a temperature, from vLLM's flat rows.

    A row is the token itself and, at a temperature other than 1, the whole vocabulary after it.
    """
    if temperature == 1.0:
        return [math.nan, *flat.logprobs]
    values = np.array(flat.logprobs) / temperature
    scores = [math.nan]
    for start, end in zip(flat.start_indices[1:], flat.end_indices[1:], strict=True):
        scores.append(float(values[start] - np.logaddexp.reduce(values[start + 1 : end])))
    return scores
