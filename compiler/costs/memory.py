"""Memory of one worker by phase: what is alive at each phase's largest moments, term by term.

A worker is one process with a trainer rank and an engine beside it, as `rlspec.runtime` runs them; nothing is sharded
or offloaded. Each phase has moments at which memory can be at its largest; a moment is a sum of terms, and the phase
needs what its largest moment needs. Every term follows from the shapes of the tensors that the code at its place keeps
alive: no factor is fitted. `bench/memory_plan.py` measures the phases of real processes beside these sums.

    P parameters, V vocabulary, D width, Q, K widths of all query and of all key heads, F feed-forward width, Y layers
    N tokens of a micro-batch, padding included; L of them are learned; S slots, C context; R ranks
"""

from __future__ import annotations

from collections.abc import Iterable

from rlspec.compiler.costs.architecture import Architecture
from rlspec.dsl.annotations import Literal
from rlspec.dsl.dataclass import dataclass

Place = Literal["device", "host"]
PHASES = ("train", "sync", "generate")

F32 = 4
CHUNK_BYTES = {"cpu": 32 * 2**20, "cuda": 512 * 2**20}
"""One chunk of float32 logits of the learner's head (`rlspec.runtime.learning.logprobs`)."""
VOCABULARY_BLOCK = 8192
"""Columns of the head that the learner widens to float32 at once, for lower precisions on a CPU."""
PROMPT_BLOCK = 16_384
"""Tokens of a block of prompts that the hf engine reads at once."""
KERNEL_BLOCK, KERNEL_SPARE = 32, 8
"""Positions by which the compiled decoder pads contexts; slots beyond the declared ones in which it scores."""
VLLM_BLOCK, VLLM_SPARE = 32, 8


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes that are alive for one reason. Without a GPU all places are the host."""

    what: str
    bytes: int
    place: Place = "device"


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of a phase at which memory can be at its largest."""

    phase: str
    name: str
    terms: tuple[Term, ...]

    def total(self, place: Place | None = None) -> int:
        """Bytes, of one place or of both."""
        return sum(term.bytes for term in self.terms if place is None or term.place == place)

    def largest(self, place: Place | None = None) -> Term:
        return max((t for t in self.terms if place is None or t.place == place), key=lambda t: t.bytes)


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker is asked to do. `tokens` are those of the largest micro-batch, padding included, `learned` those
    of them that carry a loss; `micro_batches` are those of one rank and update. `prompts` conversations begin at once,
    with `prompt` tokens each. `models` are policies held beside the trained one (a reference for the KL), `critics`
    value networks that are trained with it."""

    shape: Architecture
    precision: str
    device: Literal["cpu", "cuda"]
    engine: str
    slots: int
    context: int
    tokens: int
    learned: int
    micro_batches: int
    prompts: int
    prompt: int
    ranks: int
    models: int = 0
    critics: int = 0

    @property
    def wide(self) -> int:
        """Bytes of an activation in the trainer's forward pass (autocast runs in bfloat16)."""
        return F32 if self.precision == "float32" else 2

    @property
    def narrow(self) -> int:
        """Bytes of a number in the engine."""
        return F32 if self.precision == "float32" or self.engine == "vllm" else 2

    @property
    def compiled(self) -> bool:
        """Whether the hf engine takes its compiled decoder (`rlspec.runtime.engines.decode_compiled`)."""
        shape = self.shape
        return (
            self.engine == "hf"
            and self.device == "cpu"
            and self.precision == "float32"
            and shape.experts == 1
            and shape.family in ("llama", "mistral", "qwen2", "qwen3")
            and shape.width <= 256
            and shape.feed_forward <= 1024
            and shape.vocabulary <= 16_384
            and all(n % 4 == 0 for n in (shape.width, shape.feed_forward, shape.head_width))
        )


def moments(worker: Worker) -> list[Moment]:
    """All moments of all phases, with what stays in memory all the time in each."""
    always = (*_trainer(worker), *_engine(worker))
    out = [
        Moment(phase, name, (*always, *(t for t in terms if t.bytes > 0)))
        for phase, name, terms in (*_train(worker), *_sync(worker), *_generate(worker))
    ]
    if worker.device == "cpu":
        out = [Moment(m.phase, m.name, tuple(Term(t.what, t.bytes, "host") for t in m.terms)) for m in out]
    return out


def peaks(worker: Worker, place: Place | None = None) -> dict[str, Moment]:
    """The largest moment of each phase, counted in one place or in both."""
    found = moments(worker)
    return {phase: max((m for m in found if m.phase == phase), key=lambda m: m.total(place)) for phase in PHASES}


# --------------------------------------------------------------------------------------------------- all the time


def _trainer(w: Worker) -> Iterable[Term]:
    weights = w.shape.parameters * F32
    yield Term("master weights, float32", weights)
    yield Term("AdamW's two moments, float32", 2 * weights)
    if w.models:
        yield Term("reference policy, float32", w.models * weights)
    if w.critics:
        yield Term("critic: weights and moments, float32", 3 * w.critics * weights)


def _engine(w: Worker) -> Iterable[Term]:
    shape, slots = w.shape, w.slots
    weights = shape.parameters
    per_token = 2 * shape.layers * shape.keys * w.narrow
    if w.engine == "vllm":
        weights += shape.head * shape.tied  # vLLM unties the head
        blocks = (slots + VLLM_SPARE) * (-(-w.context // VLLM_BLOCK) + 1)
        yield Term("engine's weights", weights * w.narrow)
        yield Term("engine's key-value cache", blocks * VLLM_BLOCK * per_token)
        return
    yield Term("engine's weights", weights * w.narrow)
    length = w.context
    if w.compiled:
        yield Term("engine's weights, laid out for the compiled decoder", _laid_out(shape) * F32)
        length = -(-w.context // KERNEL_BLOCK) * KERNEL_BLOCK
        slots += KERNEL_SPARE
        rows = max(w.slots, KERNEL_SPARE)
        widths = 3 * shape.width + 2 * shape.queries + 2 * shape.keys + 2 * shape.feed_forward + shape.vocabulary
        yield Term("engine's work space", rows * widths * F32)
    yield Term("engine's key-value cache", slots * length * per_token)
    yield Term("engine's table of conversations", w.slots * w.context * 32, "host")


def _laid_out(shape: Architecture) -> int:
    """Numbers of the compiled decoder's own copy: embedding and head apart, even where they are one."""
    return shape.parameters + shape.head * shape.tied


# ---------------------------------------------------------------------------------------------------------- train

Found = tuple[str, str, list[Term]]


def _train(w: Worker) -> Iterable[Found]:
    """Backward begins with all activations; at its end all gradients are there. Then gradients are handed over, added
    and applied. A second micro-batch finds the first one's gradients in memory."""
    shape = w.shape
    parameters, head = shape.parameters * F32, shape.head * F32
    begun = w.micro_batches > 1
    kept = activations(w)
    so_far = [Term("gradients of earlier micro-batches", parameters)] if begun else []
    casts = [Term("bfloat16 copies of the layers' matrices", 2 * shape.layers * shape.linear)] if w.wide == 2 else []
    yield (
        "train",
        "the backward pass of the head",
        [
            *so_far,
            *casts,
            Term("activations", kept),
            Term("the head's gradient, and a chunk's share of it", 2 * head),
            Term("chunk of logits", _chunk(w)),
            Term("the head in bfloat16", shape.head * 2 if w.wide == 2 else 0),
            Term("hidden states before the head, and their gradient", w.learned * shape.width * 2 * w.wide),
        ],
    )
    layer = w.tokens * (3 * shape.feed_forward * shape.active + 3 * shape.width) * w.wide
    yield (
        "train",
        "the backward pass of the last layer",
        [
            *so_far,
            *casts,
            Term("activations", kept),
            Term("gradient of the head", 0 if begun else head),
            Term("gradients of a layer's activations", layer),
        ],
    )
    yield (
        "train",
        "the backward pass of the embedding",
        [
            Term("gradients", parameters),
            Term("the embedding's gradient before it is added", head if begun or shape.tied else 0),
            Term("gradient of the first layer's input", w.tokens * shape.width * F32),
            Term("activations", kept // max(1, shape.layers)),
        ],
    )
    yield (
        "train",
        "gradients are handed over",
        [
            Term("gradients", parameters),
            Term("gradients, copied out or made one array", parameters, "device" if w.device == "cpu" else "host"),
            Term("gradients, as arrays of the host", parameters if w.device == "cuda" else 0, "host"),
        ],
    )
    yield (
        "train",
        "the optimiser's step",
        [
            Term("the sum of the ranks' gradients", parameters),
            Term("all ranks' gradients, as received and copied", 2 * w.ranks * parameters, "host"),
            Term("squares of the largest gradient, float64", 16 * shape.largest),
            Term("fused step's temporaries", parameters if w.device == "cuda" else 0),
        ],
    )


def activations(w: Worker) -> int:
    """Bytes that the forward pass keeps for the backward pass.

    Per layer and token, as transformers' Llama, Qwen2 and Qwen3 are written: of each of the two norms its input and the
    normalised input, in float32; its result, once for all matrices that read it in float32, once for each under
    autocast; rotated queries and keys, values and the attention's result; with norms of queries and keys the same three
    of these less one; gate, its activation, up, and their product; and the attention's log-sum-exp per head.
    """
    shape = w.shape
    reads = 2 if w.wide == F32 else 5
    numbers = (reads * shape.width + 2 * shape.queries + 2 * shape.keys
               + 4 * shape.active * shape.feed_forward) * w.wide  # fmt: skip
    always_wide = (4 * shape.width + shape.heads + 2) * F32
    if shape.qk_norm:
        always_wide += (shape.heads + shape.kv_heads) * F32
        numbers += (shape.queries + shape.keys) * (w.wide + F32)
    last = (2 * shape.width + 1) * F32
    return w.tokens * (shape.layers * (numbers + always_wide) + last)


def _chunk(w: Worker) -> int:
    """The learner's logits: one chunk is alive in the backward pass; for lower precisions on a CPU also its parts
    before they are joined."""
    wanted = max(1, CHUNK_BYTES[w.device] // (F32 * w.shape.vocabulary))
    logits = min(wanted, w.learned) * w.shape.vocabulary * F32
    joined = w.wide == 2 and w.device == "cpu"
    return logits * (2 if joined else 1)


# ----------------------------------------------------------------------------------------------------------- sync


def _sync(w: Worker) -> Iterable[Found]:
    """The trainer's weights are copied to the host, a tied head once more under its own name, and from there into the
    engine's, in place."""
    shape = w.shape
    copied = (shape.parameters + shape.head * shape.tied) * F32
    new = _laid_out(shape) * F32 if w.compiled else 0
    stacked = 2 * shape.layers * 2 * shape.width * shape.feed_forward * F32 if w.compiled else 0
    yield (
        "sync",
        "the engine takes the weights",
        [
            Term("the weights on their way, float32", copied, "host"),
            Term("the compiled decoder's next layout", new),
            Term("matrices while they are laid out", max(stacked, shape.head * F32) if w.compiled else 0),
        ],
    )


# ------------------------------------------------------------------------------------------------------- generate


def _generate(w: Worker) -> Iterable[Found]:
    """Prompts are read in blocks, by a layer at a time; every sampling step has the logits of all rows."""
    shape, size = w.shape, w.narrow
    logits = w.slots * shape.vocabulary
    if w.compiled:
        yield "generate", "sampling", []
        return
    sampling = logits * (F32 + F32 + F32 + 8)  # logits, their log-softmax, its exponential, the float64 running sum
    if size == 2:
        sampling = max(sampling, logits * (2 + F32))
    yield "generate", "sampling", [Term("logits and what sampling makes of them", sampling)]
    gathered = 2 * w.slots * w.context * shape.keys * size if w.engine == "hf" else 0
    yield "generate", "attention of a sampling step", [Term("one layer's keys and values, gathered", gathered)]
    length = min(w.prompt, PROMPT_BLOCK)
    rows = max(1, min(w.prompts, PROMPT_BLOCK // max(1, length)))
    tokens, group = rows * length, shape.heads // shape.kv_heads
    # Locals of a layer live until the next one sets them anew: projected, rotated and swapped queries and keys, and
    # the feed-forward layer's gate and up. The mask is a bool for each head of a group; attention makes numbers of it.
    attending = shape.width + 5 * shape.queries + 4 * shape.keys + 2 * shape.active * shape.feed_forward
    feeding = 3 * shape.width + 4 * shape.queries + 4 * shape.keys + 4 * shape.active * shape.feed_forward
    mask = tokens * w.prompt * group if w.engine == "hf" and length > 1 else 0
    yield (
        "generate",
        "prompts are read: attention",
        [
            Term("one layer's states of a block of prompts", tokens * attending * size),
            Term("attention mask of the block", mask * (1 + size)),
        ],
    )
    yield (
        "generate",
        "prompts are read: feed-forward",
        [
            Term("one layer's states of a block of prompts", tokens * feeding * size),
            Term("attention mask of the block", mask),
        ],
    )
