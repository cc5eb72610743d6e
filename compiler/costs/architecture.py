"""The shape of the policy's network, found without loading anything, and the sizes that follow from it.

Where it comes from, first that applies: fields of the policy's `shape` block; the fields of `tiny`; config.json of a
local folder; the table of published shapes; a size in the model's name ("...-9B"), with the shape of the published
model nearest to it. The last is a guess and says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from rlspec.compiler.costs.published import PUBLISHED
from rlspec.compiler.plan import ComponentPlan
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass, replace

_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*[bB](?![A-Za-z0-9])")
_CONFIG = {
    "layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
    "feed_forward": "intermediate_size", "vocabulary": "vocab_size",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder built like Llama. `guessed_parameters` replaces the count that follows from the shape (0: it does not);
    `source` says where the shape comes from, `family` what transformers calls it."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    vocabulary: int
    tied: int = 0
    qk_norm: int = 0
    qkv_bias: int = 0
    experts: int = 1
    active: int = 1
    family: str = "llama"
    source: str = ""
    guessed_parameters: int = 0

    @property
    def queries(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_width

    @property
    def keys(self) -> int:
        """Width of all key heads together; values are as wide."""
        return self.kv_heads * self.head_width

    @property
    def head(self) -> int:
        """Weights of the head's matrix, whether it is shared with the embedding or not."""
        return self.vocabulary * self.width

    @property
    def linear(self) -> int:
        """Weights of one layer's matrices."""
        attention = self.width * (2 * self.queries + 2 * self.keys)
        router = self.width * self.experts if self.experts > 1 else 0
        return attention + 3 * self.experts * self.width * self.feed_forward + router

    @property
    def parameters(self) -> int:
        """All parameters, a tied head once."""
        if self.guessed_parameters:
            return self.guessed_parameters
        small = 2 * self.width + 2 * self.head_width * self.qk_norm + (self.queries + 2 * self.keys) * self.qkv_bias
        return self.head * (1 if self.tied else 2) + self.layers * (self.linear + small) + self.width

    @property
    def largest(self) -> int:
        """Parameters of the largest single tensor."""
        experts = self.experts * self.feed_forward * self.width
        return max(self.head, experts, self.queries * self.width)


def architecture_of(policy: ComponentPlan, read_files: bool = True) -> Architecture | str:
    """The policy's shape, or the reason why it is not known."""
    if policy.name == "tiny":
        return _of_tiny(policy.fields)
    model = str(policy.fields.get("model", ""))
    given = {k: v for k, v in policy.fields.get("shape", {}).items() if v not in (0, "auto")}
    found = _local(model) if read_files else None
    if found is None:
        found = _published(model) or _by_size(model)
    if given:
        return _overridden(found, given)
    return found or f"the shape of {model!r} is not known: give `shape {{ layers = ... }}` in the policy"


def _of_tiny(given: Mapping[str, Any]) -> Architecture:
    return Architecture(
        given["layers"], given["width"], given["heads"], given["kv_heads"], given["width"] // given["heads"],
        given["feed_forward"], given["vocabulary"], source="fields of tiny; the vocabulary is an upper bound",
    )  # fmt: skip


def _local(model: str) -> Architecture | None:
    """From config.json of a folder; None when there is none that can be read."""
    path = Path(model) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict) or any(not isinstance(config.get(key), int) for key in _CONFIG.values()):
        return None
    sizes = {name: config[key] for name, key in _CONFIG.items()}
    family = str(config.get("model_type", "llama"))
    experts = int(config.get("num_experts") or config.get("num_local_experts") or 1)
    if experts > 1 and config.get("moe_intermediate_size"):
        sizes["feed_forward"] = int(config["moe_intermediate_size"])
    return Architecture(
        **sizes,
        kv_heads=int(config.get("num_key_value_heads") or sizes["heads"]),
        head_width=int(config.get("head_dim") or sizes["width"] // sizes["heads"]),
        tied=int(bool(config.get("tie_word_embeddings", False))),
        qk_norm=int(family.startswith("qwen3")),
        qkv_bias=int(family == "qwen2" or bool(config.get("attention_bias", False))),
        experts=experts,
        active=int(config.get("num_experts_per_tok") or 1),
        family=family,
        source=f"config.json of {Path(model).name}",
    )


def _published(model: str) -> Architecture | None:
    name = model.rpartition("/")[2].lower().removeprefix("meta-")
    fitting = [key for key in PUBLISHED if name == key or name.startswith(f"{key}-")]
    if not fitting:
        return None
    key = max(fitting, key=len)
    return _of_table(key)


def _of_table(key: str) -> Architecture:
    row: dict[str, Any] = dict(PUBLISHED[key])
    family = "qwen3" if key.startswith("qwen3") else "qwen2" if key.startswith("qwen") else "llama"
    return Architecture(**row, family=family, source=f"the published shape of {key}")


def _by_size(model: str) -> Architecture | None:
    found = _SIZE.search(model.rpartition("/")[2].replace("-", " ").replace("_", " "))
    if found is None or not float(found[1]):
        return None
    wanted = round(float(found[1]) * 1e9)
    shapes = {key: _of_table(key) for key in PUBLISHED}
    key = min(shapes, key=lambda k: abs(math.log(shapes[k].parameters / wanted)))
    source = f"a guess: {found[1]}B by its name, with the shape of {key}"
    return replace(shapes[key], guessed_parameters=wanted, source=source)


def _overridden(found: Architecture | None, given: Mapping[str, Any]) -> Architecture | str:
    sizes = {name: int(value == "yes") if isinstance(value, str) else int(value) for name, value in given.items()}
    if found is not None:
        source = f"{found.source}, with {', '.join(sorted(sizes))} from the spec"
        return replace(found, **sizes, guessed_parameters=0, source=source)  # type: ignore[arg-type]
    needed = [f.name for f in fields(Architecture)[:7] if f.name not in sizes]
    if needed:
        return f"the policy's shape lacks {', '.join(needed)}"
    return Architecture(**sizes, source="the spec's shape")  # type: ignore[arg-type]
