"""Shapes of models that the papers and their readers name, as the models' own configurations publish them."""

from __future__ import annotations

COLUMNS = ("layers", "width", "heads", "kv_heads", "head_width", "feed_forward", "vocabulary", "tied", "qk_norm",
           "qkv_bias", "experts", "active")  # fmt: skip
"""`tied`: the head shares the embedding's weight; `qk_norm`: queries and keys are normed; `qkv_bias`: they have biases.
Of a mixture of experts `feed_forward` is that of one expert, and a token goes through `active` of `experts`."""

_TABLE: dict[str, tuple[int, ...]] = {
    "qwen3-0.6b": (28, 1024, 16, 8, 128, 3072, 151_936, 1, 1, 0, 1, 1),
    "qwen3-1.7b": (28, 2048, 16, 8, 128, 6144, 151_936, 1, 1, 0, 1, 1),
    "qwen3-4b": (36, 2560, 32, 8, 128, 9728, 151_936, 1, 1, 0, 1, 1),
    "qwen3-8b": (36, 4096, 32, 8, 128, 12_288, 151_936, 0, 1, 0, 1, 1),
    "qwen3-14b": (40, 5120, 40, 8, 128, 17_408, 151_936, 0, 1, 0, 1, 1),
    "qwen3-32b": (64, 5120, 64, 8, 128, 25_600, 151_936, 0, 1, 0, 1, 1),
    "qwen3-30b-a3b": (48, 2048, 32, 4, 128, 768, 151_936, 0, 1, 0, 128, 8),
    "qwen2.5-0.5b": (24, 896, 14, 2, 64, 4864, 151_936, 1, 0, 1, 1, 1),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 128, 8960, 151_936, 1, 0, 1, 1, 1),
    "qwen2.5-3b": (36, 2048, 16, 2, 128, 11_008, 151_936, 1, 0, 1, 1, 1),
    "qwen2.5-7b": (28, 3584, 28, 4, 128, 18_944, 152_064, 0, 0, 1, 1, 1),
    "qwen2.5-14b": (48, 5120, 40, 8, 128, 13_824, 152_064, 0, 0, 1, 1, 1),
    "qwen2.5-32b": (64, 5120, 40, 8, 128, 27_648, 152_064, 0, 0, 1, 1, 1),
    "qwen2.5-72b": (80, 8192, 64, 8, 128, 29_568, 152_064, 0, 0, 1, 1, 1),
    "llama-3.2-1b": (16, 2048, 32, 8, 64, 8192, 128_256, 1, 0, 0, 1, 1),
    "llama-3.2-3b": (28, 3072, 24, 8, 128, 8192, 128_256, 1, 0, 0, 1, 1),
    "llama-3.1-8b": (32, 4096, 32, 8, 128, 14_336, 128_256, 0, 0, 0, 1, 1),
    "llama-3.1-70b": (80, 8192, 64, 8, 128, 28_672, 128_256, 0, 0, 0, 1, 1),
    "llama-3.3-70b": (80, 8192, 64, 8, 128, 28_672, 128_256, 0, 0, 0, 1, 1),
}

PUBLISHED: dict[str, dict[str, int]] = {name: dict(zip(COLUMNS, row, strict=True)) for name, row in _TABLE.items()}
"""By lower-case name without owner."""
