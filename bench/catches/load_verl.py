"""Composes verl's trainer configuration with each set of overrides on standard input, then validates it as its trainer
does before any worker starts; prints mistake -> first line of its error."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from pathlib import Path

import verl
from hydra import compose, initialize_config_dir
from verl.utils.config import omega_conf_to_dataclass, validate_config

FOLDER = str(Path(verl.__path__[0]) / "trainer" / "config")
SOUND = [
    "data.train_batch_size=16",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.model.path=none",
    "algorithm.adv_estimator=grpo",
    "trainer.n_gpus_per_node=1",
]


def error(overrides: list[str]) -> str:
    """What composing and validating say against these overrides, "" when they take them."""
    try:
        with initialize_config_dir(config_dir=FOLDER, version_base=None):
            config = compose("ppo_trainer", overrides=[*SOUND, *overrides])
        validate_config(config, use_reference_policy=config.actor_rollout_ref.actor.use_kl_loss, use_critic=False)
        for part in (config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, config.algorithm):
            omega_conf_to_dataclass(part)
    except Exception as problem:  # whatever it is, the peer has refused
        return f"{type(problem).__name__}: {problem}".splitlines()[0]
    return ""


if __name__ == "__main__":
    logging.disable()
    with contextlib.redirect_stdout(io.StringIO()):
        if error([]):
            sys.exit(f"the sound configuration is refused: {error([])}")
        answers = {what: error(overrides) for what, overrides in json.load(sys.stdin).items()}
    print(json.dumps(answers))
