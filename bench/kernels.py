"""Generated kernels against plain torch, verl 0.9.1 and TRL 1.16.0: the same numbers first, then the time.

    bash bench/peers/make_env.sh                      # once: the peers' own environment
    python bench/kernels.py [--without-peers]

Two steps' worth of trajectories, 1024 of 4096 agent tokens and 128 of 32768, in groups of 8. Everybody's values are
compared in float64 (degrees of freedom and epsilon set to the peer's); the clock is CPU time with one thread, the
smallest of repeats, ours on float64, torch and the peers on float32, which is what they are used with. `torch` is what
one writes by hand on padded tensors. Where a peer has no such function there is no row.

B trajectories, T agent tokens of each, K turns of each
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlspec.compiler.program import Program
from rlspec.compiler.sketch import Sketch, element, gae, normalise, num, program, reduce, scan, signal
from rlspec.runtime.record.ragged import RaggedBatch
from rlspec.runtime.scoring import Kernel

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))
from clock import milliseconds  # type: ignore[import-not-found]  # noqa: E402

GROUP, GAMMA, LAM, TURN_TOKENS = 8, 0.99, 0.95, 256
SHAPES = ((1024, 4096), (128, 32768))
Array = np.ndarray


# -------------------------------------------------------------------------------------------------------------- ours


def programs() -> dict[str, Program]:
    """Our side of every comparison, by the peer's rule where peers differ."""
    outcome, verdict, turns = signal("outcome", "traj"), signal("verdict", "turn", "int"), signal("turns", "turn")
    reward, value = signal("reward", "token"), signal("value", "token")
    known = (verdict == 0.0) | (verdict == 1.0)
    mean = reduce("sum", verdict, "turn", where=known) / num("turn")
    tarl = 10.0 * outcome - 5.0 * reduce("any", verdict == -1.0, "turn") + element("clip", mean, -5.0, 5.0)
    advantage = gae(reward, value, "token", GAMMA, LAM)
    returns = gae(reward, 0.0, "token", GAMMA, 1.0)  # lambda 1 and value 0: the discounted return

    def whole(x: Sketch, finest: str) -> Sketch:
        return normalise("zscore", x, *("group", "traj", finest), epsilon=1e-8)

    return {
        "group norm": program(advantage=normalise("zscore", outcome, "traj", epsilon=1e-6)),
        "group norm to tokens": program(advantage=normalise("zscore", outcome, "traj", epsilon=1e-6)),
        "group norm, epsilon of TRL": program(advantage=normalise("zscore", outcome, "traj", epsilon=1e-4)),
        "turn returns": program(advantage=whole(scan("suffix_sum", turns, "turn", GAMMA), "turn")),
        "token returns": program(advantage=whole(returns, "token")),
        "gae": program(advantage=whole(advantage, "token"), returns=advantage + value),
        "tarl": program(advantage=normalise("zscore", tarl, "traj", epsilon=1e-6)),
    }


# ------------------------------------------------------------------------------------------------------- plain torch


def group_norm(x_B: torch.Tensor) -> torch.Tensor:
    x_GN = x_B.view(-1, GROUP)
    return ((x_GN - x_GN.mean(1, keepdim=True)) / (x_GN.std(1, keepdim=True) + 1e-6)).view(-1)


def whitened(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean()) * torch.rsqrt(x.var() + 1e-8)


def discounted(x_BK: torch.Tensor) -> torch.Tensor:
    returns, carry = torch.empty_like(x_BK), torch.zeros_like(x_BK[:, 0])
    for k in reversed(range(x_BK.shape[1])):
        carry = x_BK[:, k] + GAMMA * carry
        returns[:, k] = carry
    return whitened(returns)


def advantages(reward_BT: torch.Tensor, value_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.empty_like(reward_BT)
    carry = following = torch.zeros_like(reward_BT[:, 0])
    for t in reversed(range(reward_BT.shape[1])):
        carry = reward_BT[:, t] + GAMMA * following - value_BT[:, t] + GAMMA * LAM * carry
        following = value_BT[:, t]
        found[:, t] = carry
    return whitened(found), found + value_BT


def collapsed(outcome_B: torch.Tensor, verdict_BK: torch.Tensor, mask_BK: torch.Tensor) -> torch.Tensor:
    bad_B = ((verdict_BK == -1) & (mask_BK > 0)).any(1)
    known_BK = ((verdict_BK == 0) | (verdict_BK == 1)) * mask_BK
    mean_B = ((verdict_BK * known_BK).sum(1) / mask_BK.sum(1)).clamp(-5, 5)
    return group_norm(10 * outcome_B - 5 * bad_B + mean_B)


def torch_cases(inputs: dict[str, Array], dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    x = {k: torch.from_numpy(v).to(dtype) for k, v in inputs.items() if v.ndim}
    mask_BK = torch.ones_like(x["verdict"])
    return {
        "group norm/torch": lambda: group_norm(x["outcome"]),
        "group norm to tokens/torch": lambda: group_norm(x["outcome"])[:, None].repeat(1, x["reward"].shape[1]),
        "turn returns/torch": lambda: discounted(x["turns"]),
        "token returns/torch": lambda: discounted(x["reward"]),
        "gae/torch": lambda: advantages(x["reward"], x["value"]),
        "tarl/torch": lambda: collapsed(x["outcome"], x["verdict"], mask_BK),
    }


# ---------------------------------------------------------------------------------------------------- the comparison


def make_inputs(trajectories: int, tokens: int) -> dict[str, Array]:
    rng, turns = np.random.default_rng(0), tokens // TURN_TOKENS
    return {
        "outcome": rng.integers(0, 2, trajectories) * 0.7 + 0.3 * rng.random(trajectories),
        "verdict": rng.choice([-1.0, 0.0, 1.0, 2.0], (trajectories, turns), p=[0.02, 0.4, 0.4, 0.18]),
        "turns": rng.standard_normal((trajectories, turns)),
        "reward": rng.standard_normal((trajectories, tokens)) * (rng.random((trajectories, tokens)) < 0.1),
        "value": rng.standard_normal((trajectories, tokens)),
        "group": np.array(GROUP),
        "gamma": np.array(GAMMA),
        "lam": np.array(LAM),
    }


def make_batch(inputs: dict[str, Array]) -> RaggedBatch:
    (trajectories, tokens), turns = inputs["reward"].shape, inputs["turns"].shape[1]
    signals = {k: v.ravel() for k, v in inputs.items() if v.ndim}
    return RaggedBatch(
        np.arange(0, trajectories + 1, GROUP),
        np.arange(0, trajectories * turns + 1, turns),
        np.arange(0, trajectories * tokens + 1, TURN_TOKENS),
        signals,
    )


def peers(inputs: dict[str, Array]) -> tuple[dict[str, Array], dict[str, float]]:
    """Values and milliseconds from the peers' environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "inputs.npz"), Path(folder, "results.npz")
        np.savez(source, **inputs)  # type: ignore[arg-type]
        done = subprocess.run(
            [PEERS / ".venv/bin/python", PEERS / "run.py", source, target],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        with np.load(target) as stored:
            values = {name.replace("|", "/"): stored[name] for name in stored.files}
    return values, json.loads(done.stdout.splitlines()[-1])


def flat(result: Array | torch.Tensor | Sequence[Array | torch.Tensor]) -> Array:
    """All values of a call's result."""
    parts = result if isinstance(result, list | tuple) else [result]
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def scorer(case: str, kernel: Kernel, batch: RaggedBatch, tokens: int) -> Callable[[], list[Array]]:
    """Our side as one call. Group-normed advantages stay at the trajectory; for the peer that writes them out for every
    token, so do we, in its float32."""
    if case == "group norm to tokens":
        return lambda: [np.repeat(kernel(batch)["advantage"].astype(np.float32), tokens)]
    return lambda: list(kernel(batch).values())


def measured(trajectories: int, tokens: int, with_peers: bool) -> list[tuple[str, float, str, float, float]]:
    """Rows of (case, our ms, other, its ms, largest difference of values) for one shape.

    Raises:
        SystemExit: somebody's values differ from ours by more than 1e-6.
    """
    inputs = make_inputs(trajectories, tokens)
    values = {name: flat(call()) for name, call in torch_cases(inputs, torch.float64).items()}
    theirs = {name: milliseconds(call) for name, call in torch_cases(inputs, torch.float32).items()}
    if with_peers:
        peer_values, peer_times = peers(inputs)
        values |= peer_values
        theirs |= peer_times
    batch = make_batch(inputs)
    rows = []
    for case, wanted in programs().items():
        call = scorer(case, Kernel(wanted), batch, tokens)
        found, ours = flat(call()), milliseconds(call)
        for name, ms in theirs.items():
            same, _, other = name.partition("/")
            if same + ", epsilon of TRL" * (other == "TRL") != case:
                continue
            apart = float(np.max(np.abs(found - values[name])))
            if apart > 1e-6:
                raise SystemExit(f"{case} at {trajectories} x {tokens}: {other} differs by {apart:.2g}")
            rows.append((same, ours, other, ms, apart))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-peers", action="store_true", help="compare with plain torch only")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print("| B x T | kernel | ours, ms | other | its ms | ratio | values apart |")
    print("|---|---|---:|---|---:|---:|---:|")
    for trajectories, tokens in SHAPES:
        for case, ours, other, ms, apart in measured(trajectories, tokens, not chosen.without_peers):
            shape = f"{trajectories} x {tokens}"
            print(f"| {shape} | {case} | {ours:.3f} | {other} | {ms:.3f} | {ms / ours:.1f} | {apart:.0e} |", flush=True)


if __name__ == "__main__":
    main()
