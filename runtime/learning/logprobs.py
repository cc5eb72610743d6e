"""Log-probabilities of given tokens, without ever holding a row of logits per token.

For L tokens and a vocabulary of V the usual way keeps logits, their softmax and their gradient: three
arrays of (L, V). Here the head's product is taken in chunks of tokens; what is kept for the backward pass
is the hidden states, the weight and one number per token (the log-sum-exp), and each chunk's logits are
computed a second time there. Peak memory is one chunk, whatever L and V are.

    L tokens whose log-probability is wanted, C tokens of a chunk, D width, V vocabulary, B rows, T padded
    length
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlspec.runtime.refusal import Refusal

CHUNK_BYTES = {"cpu": 32 * 2**20, "cuda": 512 * 2**20}
"""Size of one chunk's float32 logits. Memory and speed only: the result does not depend on it beyond
rounding."""

_VOCABULARY_BLOCK = 8_192


def _logits(hidden_CD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, temperature: float) -> Tensor:
    """Logits over the temperature, (C, V), accumulated and returned in float32 for lower precisions."""
    if hidden_CD.dtype in (torch.float32, torch.float64):
        logits_CV = hidden_CD @ weight_VD.T
    elif hidden_CD.is_cuda:
        logits_CV = torch.mm(hidden_CD, weight_VD.T, out_dtype=torch.float32)
    else:
        # In blocks, because a float32 copy of the whole head would cost more than the logits that we avoid.
        hidden_CD = hidden_CD.float()
        blocks = [hidden_CD @ block.float().T for block in weight_VD.split(_VOCABULARY_BLOCK)]
        logits_CV = torch.cat(blocks, dim=1)
    if bias_V is not None:
        logits_CV += bias_V
    if temperature != 1.0:
        logits_CV /= temperature
    return logits_CV


def _back_to_hidden(grad_CV: Tensor, weight_VD: Tensor) -> Tensor:
    """grad @ weight, (C, D), in the gradient's precision."""
    if weight_VD.dtype == grad_CV.dtype:
        return grad_CV @ weight_VD
    if grad_CV.is_cuda:
        return torch.mm(grad_CV.to(weight_VD.dtype), weight_VD, out_dtype=torch.float32)
    total_CD = torch.zeros(len(grad_CV), weight_VD.shape[1], dtype=grad_CV.dtype)
    blocks = zip(grad_CV.split(_VOCABULARY_BLOCK, dim=1), weight_VD.split(_VOCABULARY_BLOCK), strict=True)
    for grad_CK, weight_KD in blocks:
        total_CD += grad_CK @ weight_KD.to(grad_CV.dtype)
    return total_CD


def _back_to_weight(grad_CV: Tensor, hidden_CD: Tensor) -> Tensor:
    """grad.T @ hidden, (V, D), in the gradient's precision."""
    if hidden_CD.is_cuda and hidden_CD.dtype != grad_CV.dtype:
        return torch.mm(grad_CV.T.to(hidden_CD.dtype), hidden_CD, out_dtype=torch.float32)
    return grad_CV.T @ hidden_CD.to(grad_CV.dtype)


class _ChunkedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_LD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_L: Tensor,
        temperature: float,
        chunk: int,
        entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        weight = weight_VD.to(hidden_LD.dtype)
        wide = torch.float64 if hidden_LD.dtype == torch.float64 else torch.float32
        count = len(targets_L)
        logprobs_L = torch.empty(count, dtype=wide, device=hidden_LD.device)
        lse_L = torch.empty_like(logprobs_L)
        entropy_L = torch.zeros_like(logprobs_L)
        for start in range(0, count, chunk):
            part = slice(start, start + chunk)
            logits_CV = _logits(hidden_LD[part], weight, bias_V, temperature)
            lse_C = torch.logsumexp(logits_CV, dim=1)
            logprobs_L[part] = logits_CV.gather(1, targets_L[part, None])[:, 0] - lse_C
            lse_L[part] = lse_C
            if entropy:
                probs_CV = (logits_CV - lse_C[:, None]).exp_()
                entropy_L[part] = lse_C - logits_CV.mul_(probs_CV).sum(dim=1)
        ctx.save_for_backward(hidden_LD, weight_VD, bias_V, targets_L, lse_L)
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.mark_non_differentiable(entropy_L)
        return logprobs_L, entropy_L

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_L = grads[0]
        hidden_LD, weight_VD, bias_V, targets_L, lse_L = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        weight, wide = weight_VD.to(hidden_LD.dtype), lse_L.dtype
        grad_hidden_LD = torch.empty_like(hidden_LD) if needs_hidden else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=wide) if needs_weight else None
        grad_bias_V = torch.zeros_like(bias_V, dtype=wide) if needs_bias and bias_V is not None else None
        for start in range(0, len(targets_L), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            logits_CV = _logits(hidden_LD[part], weight, bias_V, ctx.temperature)
            # d logp[target] / d logits = (onehot(target) - softmax) / temperature, written over the logits.
            scale_C1 = grad_L[part, None].to(wide) / ctx.temperature
            grad_CV = logits_CV.sub_(lse_L[part, None]).exp_().mul_(-scale_C1)
            grad_CV.scatter_add_(1, targets_L[part, None], scale_C1)
            if grad_hidden_LD is not None:
                grad_hidden_LD[part] = _back_to_hidden(grad_CV, weight)
            if grad_weight_VD is not None:
                grad_weight_VD += _back_to_weight(grad_CV, hidden_LD[part])
            if grad_bias_V is not None:
                grad_bias_V += grad_CV.sum(dim=0)
        if grad_weight_VD is not None:
            grad_weight_VD = grad_weight_VD.to(weight_VD.dtype)
        return grad_hidden_LD, grad_weight_VD, grad_bias_V, None, None, None, None


def chunk_tokens(vocabulary: int, device: str = "cpu") -> int:
    """Tokens per chunk so that its float32 logits stay within the device's `CHUNK_BYTES`; at least 1."""
    return max(1, CHUNK_BYTES.get(device, CHUNK_BYTES["cpu"]) // (4 * vocabulary))


def token_logprobs(
    hidden_LD: Tensor,
    weight_VD: Tensor,
    targets_L: Tensor,
    *,
    temperature: float = 1.0,
    bias_V: Tensor | None = None,
    chunk: int | None = None,
    entropy: bool = False,
) -> tuple[Tensor, Tensor]:
    """log softmax((hidden @ weight.T + bias) / temperature)[target], in nats, and the entropy of each
    distribution.

    Args:
        hidden_LD: last hidden states, any float type. Its type is the precision of the head's product; sums
        are
            float32, or float64 when it is.
        weight_VD: the head's weight; may be of a wider type than the hidden states (master weights).
        targets_L: token ids, int64.
        temperature: as it was sampled at.
        chunk: tokens per chunk; from `chunk_tokens` when not given.
        entropy: also compute the entropies (nats, without gradient); zeros otherwise.

    Returns:
        logprobs_L, differentiable in hidden, weight and bias, and entropy_L; float32 or float64.
    """
    size = chunk or chunk_tokens(weight_VD.shape[0], hidden_LD.device.type)
    with torch.autocast(hidden_LD.device.type, enabled=False):
        return _ChunkedLogprobs.apply(hidden_LD, weight_VD, bias_V, targets_L, temperature, size, entropy)


class Head:
    """A causal language model of transformers, split before its vocabulary.

    Raises:
        Refusal RLC0710: the model does something to its logits that a plain linear head (with or without
        bias) does
            not, such as soft-capping or scaling. Found by comparing a few tokens' log-probabilities with
            the model's own, because no list of such options is complete.
    """

    def __init__(self, model: Any, check: bool = True) -> None:
        self.body = model.base_model
        self.linear = model.get_output_embeddings()
        if not isinstance(self.linear, torch.nn.Linear) or self.body is model:
            raise Refusal(
                "RLC0710",
                f"{type(model).__name__} has no linear head over its last hidden states",
                "use an architecture that AutoModelForCausalLM loads with a plain lm_head",
            )
        if check:
            self._check(model)

    @torch.no_grad()
    def _check(self, model: Any) -> None:
        device = self.linear.weight.device
        tokens_1T = torch.arange(4, device=device)[None] % self.linear.out_features
        hidden_TD = self.hidden(tokens_1T)[0]
        ours_TV = _logits(hidden_TD, self.linear.weight.to(hidden_TD.dtype), self.linear.bias, 1.0)
        theirs_TV = model(input_ids=tokens_1T, use_cache=False).logits[0].to(ours_TV.dtype)
        exact = hidden_TD.dtype in (torch.float32, torch.float64)
        tolerance = (1e-4 if exact else 0.05) * max(1.0, float(theirs_TV.abs().max()))
        if not torch.allclose(ours_TV, theirs_TV, rtol=0.0, atol=tolerance):
            raise Refusal(
                "RLC0710",
                f"{type(model).__name__} changes its logits after the head (soft-capping, scaling)",
                "use an architecture with a plain linear head",
            )

    def hidden(self, tokens_BT: Tensor) -> Tensor:
        """Last hidden states, (B, T, D). Rows are padded on the right and no attention mask is given: under
        causal attention padding cannot reach a real position, and attention keeps its fast path."""
        return self.body(input_ids=tokens_BT, use_cache=False).last_hidden_state

    def logprobs(
        self,
        tokens_BT: Tensor,
        rows_L: Tensor,
        positions_L: Tensor,
        *,
        temperature: float = 1.0,
        chunk: int | None = None,
        entropy: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities (nats) and entropies of the tokens at (row, position), each given its prefix;
        (L,) each.

        Only the hidden states just before those positions meet the head, so logits elsewhere do not exist
        and can have no gradient.

        Raises:
            ValueError: a position is 0: the first token has no prefix.
        """
        if bool((positions_L < 1).any()):
            raise ValueError("the first token of a sequence has no log-probability")
        hidden_LD = self.hidden(tokens_BT)[rows_L, positions_L - 1]
        if torch.is_autocast_enabled(tokens_BT.device.type):
            hidden_LD = hidden_LD.to(torch.get_autocast_dtype(tokens_BT.device.type))
        return token_logprobs(
            hidden_LD,
            self.linear.weight,
            tokens_BT[rows_L, positions_L].long(),
            temperature=temperature,
            bias_V=self.linear.bias,
            chunk=chunk,
            entropy=entropy,
        )
