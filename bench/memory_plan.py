"""Memory as `rlc plan` estimates it, beside what real workers use: training steps, weight updates and generation of
random models on the CPU, each case in a process of its own.

    python bench/memory_plan.py [CASE ...]

A case writes a model with random weights into a folder, compiles a spec that names it, and runs the worker's own roles
on it: `TrainerRole` (two updates), `RolloutRole` (new weights, then conversations up to the whole context in every
slot). The kernel's mark of the largest resident size (VmHWM) is reset before each phase; what the process had after its
imports and a first use of every library is taken off. glibc is told to give back what is freed
(MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_, one arena), so that the mark is what is alive and not what an allocator
keeps. Ends with status 1 when an estimate is more than 15 % off.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ALLOWED = 0.15
MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_TOP_PAD_": "0",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MKL_DISABLE_FAST_MM": "1",
}
MIB = 2**20
ANSWER = 16


@dataclass(frozen=True, slots=True)
class Case:
    """A model and what one of `workers` does with it. `micro_batch` tokens at once, trajectories of `context` tokens of
    which the share `learned` carries a loss, `rows` of them per update. Conversations in all `slots` begin with a
    prompt that leaves `ANSWER` tokens of the context."""

    name: str
    family: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int
    tied: bool
    precision: str
    context: int
    micro_batch: int
    rows: int
    slots: int
    learned: float = 0.5
    kl: float = 0.0
    workers: int = 2

    @property
    def prompt(self) -> int:
        return self.context - ANSWER


CASES = [
    Case("quick", "qwen3", 320, 2, 4, 2, 896, 12_000, True, "float32", 256, 1024, 8, 8),
    Case("tiny", "llama", 128, 4, 4, 2, 512, 4096, False, "float32", 512, 8192, 32, 48),
    Case("small", "llama", 384, 6, 6, 2, 1024, 16_000, False, "float32", 512, 2048, 8, 24),
    Case("long", "qwen3", 320, 4, 8, 2, 768, 8000, True, "float32", 2048, 2048, 2, 4),
    Case("vocabulary", "qwen3", 256, 2, 4, 2, 768, 151_936, True, "float32", 128, 512, 8, 32),
    Case("deep", "llama", 512, 16, 8, 8, 1408, 8000, False, "float32", 256, 512, 4, 8),
    Case("wide", "qwen3", 1280, 4, 16, 4, 3584, 32_000, True, "float32", 128, 256, 4, 4, workers=1),
    Case("bfloat16", "qwen3", 512, 6, 8, 2, 1536, 32_000, False, "bfloat16", 256, 1024, 8, 16),
    Case("bfloat16-long", "llama", 384, 4, 6, 2, 1024, 8000, True, "bfloat16", 2048, 4096, 4, 4),
    Case("reference", "llama", 512, 6, 8, 4, 1408, 16_000, False, "float32", 256, 1024, 8, 8, kl=0.01),
    Case("cache", "llama", 320, 8, 5, 5, 640, 8000, False, "float32", 1024, 1024, 2, 24),
]

SPEC = """rlspec = 1
experiment bench {{
  policy agent : hf {{ model = "{folder}"  context = {context}tokens  precision = {precision} }}
  engine e : hf {{ slots = {slots}conversations }}
  env desk : shop {{ }}
  user customer : agenda {{ serves = [desk] }}
  signal outcome : int@traj in {{0, 1}} = env.verified
  reward R : real@traj = outcome
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  resources r : machine {{ workers = {workers} }}
  stage train : grpo {{
    tasks_per_step = {tasks}tasks  group = {group}trajs  updates_per_step = 1  lr = 1e-4  steps = 2steps
    micro_batch = {micro_batch}tokens  checkpoint_every = 1steps  kl.coefficient = {kl}
  }}
}}
"""


def plan_of(case: Case, folder: str):
    """The case's plan; its trajectories are all workers' of one update."""
    from rlspec.compiler.check import check
    from rlspec.dsl.diagnostics import Source

    rows = case.rows * case.workers
    text = SPEC.format(folder=folder, tasks=rows // 2, group=2, **asdict(case))
    found = check(Source("bench.rlspec", text))
    assert found.plan is not None, [d.message for d in found.errors]
    return found.plan


def estimated(case: Case, folder: str) -> dict[str, tuple[int, str]]:
    """Bytes and moment by phase, with the lengths that the case really uses."""
    from dataclasses import replace

    from rlspec.compiler.costs.fit import memory_of
    from rlspec.compiler.costs.memory import peaks

    memory = memory_of(plan_of(case, folder))
    assert not isinstance(memory, str), memory
    worker = memory.stages["train"]
    worker = replace(worker, learned=int(worker.tokens * case.learned), prompt=case.prompt, prompts=case.slots)
    return {phase: (moment.total(), moment.name) for phase, moment in peaks(worker).items()}


# ------------------------------------------------------------------------------------------------- in the process


def resident(field: str) -> int:
    """Bytes of a line of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"the kernel does not tell {field}")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def write_model(case: Case, folder: Path) -> None:
    """Random weights in Hugging Face layout, with the shop's tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from rlspec.compiler.catalog.policies import Tiny
    from rlspec.compiler.catalog.shop import AgendaUser, Shop
    from rlspec.compiler.catalog.stages import Sft
    from rlspec.runtime.policies import tiny
    from rlspec.runtime.policies.chat import Dialogue
    from rlspec.runtime.worlds.shop import make_world
    from rlspec.runtime.worlds.shop.demonstrations import demonstrations

    world = make_world(Shop())
    shown = demonstrations(Shop(), AgendaUser(), Sft().mixture, 16, 0, first=0)
    tiny.build(Tiny(), [Dialogue(world.system, world.tools, d.dialogue) for d in shown], folder, 0)
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        case.family, vocab_size=case.vocabulary, hidden_size=case.width, intermediate_size=case.feed_forward,
        num_hidden_layers=case.layers, num_attention_heads=case.heads, num_key_value_heads=case.kv_heads,
        head_dim=case.width // case.heads, max_position_embeddings=case.context, tie_word_embeddings=case.tied,
        bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def rows_of(case: Case):
    import numpy as np

    from rlspec.runtime.learning.rows import Row

    rng = np.random.default_rng(0)
    rows = []
    for n in range(case.rows):
        mask_T = np.arange(case.context) >= case.context - int(case.context * case.learned)
        rows.append(
            Row(
                rng.integers(3, 500, case.context).astype(np.int32), mask_T, np.where(mask_T, rng.normal(), 0.0),
                np.full(case.context, -np.log(case.vocabulary), dtype=np.float32), n // 2,
                np.full(case.context, -9.0, dtype=np.float32) if case.kl else None,
            )
        )  # fmt: skip
    return rows


def first_use(folder: Path) -> None:
    """Load what is loaded on first use (kernels, operators) with a policy of no size."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from rlspec.compiler.catalog.stages import Grpo
    from rlspec.runtime.engines.hf import HfEngine
    from rlspec.runtime.learning.learner import Learner, Optimisation
    from rlspec.runtime.learning.loss import Clipped

    small = Case("", "llama", 32, 1, 2, 1, 64, 600, False, "float32", 64, 256, 2, 4)
    config = AutoConfig.for_model(
        "llama", vocab_size=600, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=False, eos_token_id=2,
    )  # fmt: skip
    for precision in ("float32", "bfloat16"):
        learner = Learner(AutoModelForCausalLM.from_config(config), Optimisation.of(Grpo(), 2), "cpu", precision)
        learner.step(rows_of(small), Clipped.of(Grpo()))
        model = AutoModelForCausalLM.from_config(config).to(getattr(torch, precision))
        engine = HfEngine(model, 4, 64, 1.0, 8, [2])
        converse(engine, small)


def converse(engine, case: Case) -> None:
    """Every slot is filled to the end of its context."""
    import numpy as np

    rng = np.random.default_rng(1)
    engine.configure(1.0, case.context)
    for n in range(case.slots):
        engine.open(str(n), rng.random(case.context))
        engine.feed(str(n), rng.integers(3, 500, case.prompt).tolist())
    live = case.slots
    while live:
        live -= len(engine.poll())
    for n in range(case.slots):
        engine.close(str(n))


def measure(case: Case, folder: Path) -> dict[str, int]:
    """Bytes above the baseline at their largest, by phase, and the baseline itself."""
    import gc

    import torch

    torch.set_num_threads(1)
    from rlspec.runtime.graph.rollout_role import RolloutRole
    from rlspec.runtime.graph.trainer_role import TrainerRole
    from rlspec.runtime.learning.loss import Denominators

    first_use(folder)
    gc.collect()
    plan = plan_of(case, str(folder))
    baseline = resident("VmRSS")
    trainer, rollout = TrainerRole(plan, 0), RolloutRole(plan, 0)
    trainer.prepare(str(folder))
    rollout.prepare(str(folder))
    trainer.begin_stage("train")
    rows = rows_of(case)
    out = {"baseline": baseline}

    def update(count: int) -> None:
        parts = [trainer.gradients("train", rows[:count], Denominators.of(rows[:count]))]
        parts += [type(parts[0])(parts[0].gradient.copy(), parts[0].sums) for _ in range(case.workers - 1)]
        trainer.apply(parts)

    def sync() -> None:
        tokens, expected = trainer.probe()
        rollout.load_weights(trainer.weights(), 1, tokens, expected)

    update(1)  # brings the moments
    converse(rollout.engine, case)  # touches the whole cache
    gc.collect()
    phases = {"train": lambda: update(len(rows)), "sync": sync, "generate": lambda: converse(rollout.engine, case)}
    for phase, act in phases.items():
        reset_peak()
        act()
        out[phase] = resident("VmHWM") - baseline
        gc.collect()
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names of cases; all without")
    parser.add_argument("--inside", metavar="FOLDER", help="measure one case in this process and print JSON")
    given = parser.parse_args()
    chosen = [case for case in CASES if not given.cases or case.name in given.cases]
    if given.inside:
        print(json.dumps(measure(chosen[0], Path(given.inside))))
        return 0
    print("memory of one worker above its baseline, MiB; one process per case, float32 master weights, 1 thread")
    print(f"{'case':<15} {'phase':<9} {'estimated':>9} {'measured':>9} {'off':>7}  largest at")
    worst, baselines = 0.0, []
    for case in chosen:
        with tempfile.TemporaryDirectory() as folder:
            write_model(case, Path(folder))
            command = [sys.executable, str(Path(__file__).resolve()), case.name, "--inside", folder]
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ | MALLOC)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                return 1
            found = json.loads(done.stdout.splitlines()[-1])
            baselines.append(found["baseline"] / MIB)
            for phase, (size, name) in estimated(case, folder).items():
                off = size / found[phase] - 1
                worst = max(worst, abs(off))
                sizes = f"{size / MIB:9.0f} {found[phase] / MIB:9.0f} {off:+7.1%}"
                print(f"{case.name:<15} {phase:<9} {sizes}  {name}", flush=True)
    print(f"baselines {min(baselines):.0f} to {max(baselines):.0f} MiB")
    print(f"largest difference {worst:.1%} (allowed {ALLOWED:.0%})")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    raise SystemExit(main())
