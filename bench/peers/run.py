"""What verl 0.9.1 and TRL 1.16.0 compute, and how long they take, on the inputs of bench/kernels.py.

Run by bench/kernels.py with the python of bench/peers/.venv: `run.py INPUTS.npz RESULTS.npz`. Results are in float64,
for the comparison of values; times are of float32, which the libraries use. Milliseconds of CPU time, one thread.

B rows, T tokens, K turns
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from clock import milliseconds
from trl.trainer.utils import nanstd
from verl.trainer.ppo import core_algos

torch.set_num_threads(1)


def trl_group_norm(rewards_B: torch.Tensor, group: int) -> torch.Tensor:
    """The expression of GRPOTrainer._generate_and_score_completions with scale_rewards="group"."""
    grouped = rewards_B.view(-1, group)
    mean_B = torch.nanmean(grouped, dim=1).repeat_interleave(group, dim=0)
    std_B = nanstd(grouped, dim=1).repeat_interleave(group, dim=0)
    return (rewards_B - mean_B) / (std_B + 1e-4)


def verl_group_norm(rewards_BT, mask_BT, index_B):
    return core_algos.compute_grpo_outcome_advantage(rewards_BT, mask_BT, index_B)[0]


def verl_group_norm_vectorised(rewards_BT, mask_BT, index_B):
    return core_algos.compute_grpo_vectorized_outcome_advantage(rewards_BT, mask_BT, index_B)[0]


def verl_returns(rewards, mask, gamma):
    config = SimpleNamespace(gamma=gamma)
    return core_algos.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config=config)[0]


def cases(inputs: dict[str, np.ndarray], dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Every call, its arguments made beforehand."""
    tensor = {k: torch.from_numpy(v).to(dtype) for k, v in inputs.items() if v.ndim}
    group, gamma, lam = int(inputs["group"]), float(inputs["gamma"]), float(inputs["lam"])
    outcome_B, turns_BK, reward_BT, value_BT = (tensor[k] for k in ("outcome", "turns", "reward", "value"))
    index_B = np.array([f"task {i // group}" for i in range(len(outcome_B))], dtype=object)
    last_BT = torch.zeros_like(reward_BT)
    last_BT[:, -1] = outcome_B
    mask_BT, mask_BK = torch.ones_like(reward_BT), torch.ones_like(turns_BK)
    return {
        "group norm/TRL": lambda: trl_group_norm(outcome_B, group),
        "group norm to tokens/verl": lambda: verl_group_norm(last_BT, mask_BT, index_B),
        "group norm to tokens/verl vectorised": lambda: verl_group_norm_vectorised(last_BT, mask_BT, index_B),
        "turn returns/verl": lambda: verl_returns(turns_BK, mask_BK, gamma),
        "token returns/verl": lambda: verl_returns(reward_BT, mask_BT, gamma),
        "gae/verl": lambda: core_algos.compute_gae_advantage_return(reward_BT, value_BT, mask_BT, gamma, lam),
    }


def flat(result: torch.Tensor | tuple[torch.Tensor, ...]) -> np.ndarray:
    """All values of a call's result."""
    parts = result if isinstance(result, tuple) else (result,)
    return np.concatenate([part.numpy().ravel() for part in parts])


def main(source: str, target: str) -> None:
    with np.load(source) as stored:
        inputs = dict(stored)
    results = {name: flat(call()) for name, call in cases(inputs, torch.float64).items()}
    np.savez(target, **{name.replace("/", "|"): value for name, value in results.items()})
    print(json.dumps({name: milliseconds(call) for name, call in cases(inputs, torch.float32).items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
