"""What a spec may say of policies (the models that are trained) and of engines (what samples from them).

policy agent : tiny { width = 64  layers = 3 }
engine : hf { slots = 128conversations }
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Struct, Unit
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal

Precision = Literal["float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]


class Policy(Component):
    """A model that learns. The trainer measures the tokens that the agent sampled, under the weights as they are before
    the step's first update and at the rollouts' temperature: `entropy` of the next-token distribution, and `logprob` of
    the token, both in nats. It does so only where a formula reads them."""

    KIND: ClassVar[str] = "policy"
    MEASURES: ClassVar[dict[str, str]] = {"entropy": "real@token in [0, inf]", "logprob": "real@token in [-inf, 0]"}


class Tiny(Policy):
    """A small Llama made on the spot, with a tokenizer of its own that is trained on the demonstrations."""

    KIND = "policy"
    NAME = "tiny"

    width: Annotated[int, Field(ge=8, le=4096, description="size of the residual stream")] = 64
    layers: Annotated[int, Field(ge=1, le=128, description="number of transformer blocks")] = 3
    heads: Annotated[int, Field(ge=1, le=128, description="query heads; divides the width")] = 2
    kv_heads: Annotated[
        int,
        Field(ge=1, le=128, description="key and value heads; divides the heads. 1 decodes fastest on a CPU"),
    ] = 1
    feed_forward: Annotated[int, Field(ge=8, le=32768, description="width of the gated feed-forward layer")] = 128
    context: Annotated[
        int, Unit("tokens"), Field(ge=16, le=131072, description="longest dialogue, system text included")
    ] = 320
    vocabulary: Annotated[
        int, Unit("tokens"), Field(ge=512, le=262144, description="at most so many tokens, bytes included")
    ] = 4096
    phrases: Annotated[
        bool, Field(description="give the agent's recurring phrases a token each; the user's stay words")
    ] = True
    init_std: Annotated[float, Field(gt=0, le=1, description="standard deviation of the random weights")] = 0.02
    precision: Annotated[Precision, Field(description="number format of weights and activations")] = "float32"
    device: Annotated[Device, Field(description="where it runs; auto takes CUDA where there is one")] = "auto"

    @model_validator(mode="after")
    def _shapes_fit(self) -> Tiny:
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} is not a multiple of twice the heads ({self.heads})")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        return self


class Shape(Struct):
    """What the policy's network looks like, for `rlc plan`, where config.json or the table of published models does not
    tell, or tells wrong. 0 and auto: as found there. It changes nothing of a run."""

    layers: Annotated[int, Field(ge=0, description="number of transformer blocks")] = 0
    width: Annotated[int, Field(ge=0, description="size of the residual stream")] = 0
    heads: Annotated[int, Field(ge=0, description="query heads")] = 0
    kv_heads: Annotated[int, Field(ge=0, description="key and value heads")] = 0
    head_width: Annotated[int, Field(ge=0, description="size of one head")] = 0
    feed_forward: Annotated[int, Field(ge=0, description="width of the gated feed-forward layer")] = 0
    vocabulary: Annotated[int, Unit("tokens"), Field(ge=0, description="size of the vocabulary")] = 0
    tied: Annotated[
        Literal["auto", "yes", "no"], Field(description="whether the head shares the embedding's weight")
    ] = "auto"


class HuggingFace(Policy):
    """A causal language model in Hugging Face layout, with a chat template that is append-only."""

    KIND = "policy"
    NAME = "hf"

    model: Annotated[str, Field(min_length=1, description="a local folder or a name on the hub")]
    context: Annotated[int, Unit("tokens"), Field(ge=16, le=1048576, description="longest dialogue")] = 4096
    precision: Annotated[Precision, Field(description="number format of weights and activations")] = "float32"
    device: Annotated[Device, Field(description="where it runs; auto takes CUDA where there is one")] = "auto"
    shape: Annotated[Shape, Field(description="the network's shape, for `rlc plan`, where it is not known")] = Shape()


class HfEngine(Component):
    """Samples inside the worker's process: batched decoding with one key-value cache over all live
    conversations."""

    KIND = "engine"
    NAME = "hf"

    slots: Annotated[
        int, Unit("conversations"), Field(ge=1, le=4096, description="conversations in flight per worker")
    ] = 128
    chunk: Annotated[
        int,
        Unit("tokens"),
        Field(
            ge=2,
            le=8192,
            description="a forced stretch at least this long is read in blocks, not token by token",
        ),
    ] = 64


class VllmEngine(Component):
    """Samples with vLLM: continuous batching over paged memory, its own sampler and seeds."""

    KIND = "engine"
    NAME = "vllm"

    slots: Annotated[
        int, Unit("conversations"), Field(ge=1, le=4096, description="conversations in flight per worker")
    ] = 128
