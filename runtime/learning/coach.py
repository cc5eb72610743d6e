"""Training a diagnostician: triples become dialogues of one case and its diagnosis, and a policy imitates these.

The loop is that of the cold start (`sft.py`). Triples are held out by task, so that what is measured is said of tasks
that were never seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from rlspec.compiler.catalog.diagnosticians import Diagnostician
from rlspec.compiler.catalog.policies import Tiny
from rlspec.compiler.plan import Plan
from rlspec.runtime.learning.learner import Learner, Optimisation, Precision
from rlspec.runtime.learning.rows import Row, demonstration
from rlspec.runtime.learning.sft import ColdStart, LocalPupil, Position
from rlspec.runtime.policies import tiny
from rlspec.runtime.policies.chat import Renderer
from rlspec.runtime.policies.diagnostician import PolicyDiagnostician, fitting, lesson
from rlspec.runtime.policies.loading import load, resolve_device
from rlspec.runtime.record.durable import writing
from rlspec.runtime.streams import derived_seed
from rlspec.runtime.triples import Triple, usable
from rlspec.runtime.worlds.diagnosticians import case_text
from rlspec.runtime.worlds.leaks import leaked


class Coach:
    """One stage's policy while it learns. Embedded policies get a vocabulary of their own, from the triples."""

    def __init__(self, plan: Plan, label: str, directory: Path) -> None:
        stage = next(s for s in plan.stages if s.label == label).component()
        assert isinstance(stage, Diagnostician)
        self.stage, self.directory = stage, directory
        self.learned, self.held = usable(stage, label, plan.seed)
        fields = plan.policy.fields
        self._device, self._seed = str(resolve_device(fields["device"])), derived_seed(plan.seed, label)
        config = plan.policy.component()
        self._source = str(directory)
        if isinstance(config, Tiny):
            texts = [lesson(case_text(t.dialogue, t.place, t.gold), t.diagnosis) for t in (*self.learned, *self.held)]
            tiny.build(config.model_copy(update={"context": stage.context}), texts, directory, self._seed)
        else:
            self._source = str(fields["model"])
        model, tokenizer = load(self._source, "float32", "cpu")
        self.renderer = Renderer(tokenizer)
        self._embedded = isinstance(config, Tiny)
        precision: Precision = "float32" if fields["precision"] == "float32" else "bfloat16"
        self.learner = Learner(model, Optimisation.of(stage, stage.max_steps), self._device, precision)
        self._first = self.learner.weights()
        self.rows = [self._row(t) for t in (*self.learned, *self.held)]
        self._progress = self._run()

    def _row(self, triple: Triple) -> Row:
        room = self.stage.context - self.stage.max_new_tokens
        text = fitting(self.renderer, triple.dialogue, triple.place, triple.gold, room)
        tokens: list[int] = []
        mask: list[bool] = []
        for piece in self.renderer.dialogue(lesson(text, triple.diagnosis)):
            tokens += piece.tokens
            mask += [piece.kind == "agent"] * len(piece.tokens)
        return demonstration(tokens, mask)

    def about(self) -> dict[str, float]:
        """How many triples there are to learn from and to measure on, and their mean length."""
        length = float(np.mean([len(row) for row in self.rows]))
        return {"triples": float(len(self.learned)), "held_out_triples": float(len(self.held)), "case_tokens": length}

    def _run(self) -> Iterator[Position]:
        count, stop = len(self.learned), self.renderer.stop_token
        said = {int(t) for row in self.rows for t in row.tokens_T[row.mask_T]}
        alphabet = sorted({int(t) for row in self.rows for t in row.tokens_T[~row.mask_T]} & said - {stop}) or [stop]
        cold = ColdStart(self.stage, self.rows[:count], self.rows[count:], alphabet, [stop, stop], self._seed)
        return cold.run(LocalPupil(self.learner, self._weights))

    def _weights(self, attempt: int) -> Mapping[str, Tensor]:
        """Where an attempt begins: the policy as it is, or other random weights of an embedded one."""
        if attempt == 0 or not self._embedded:
            return self._first
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(self._seed, "weights", attempt))
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(self._source))
        return dict(model.state_dict())

    def learn(self, steps: int) -> list[dict[str, Any]]:
        """At most so many steps; the position after each. Raises Refusal RLC0709 when no attempt met the criterion."""
        out = []
        for at in self._progress:
            found = {name: value for name, value in asdict(at).items() if value is not None}
            found["phase_step"] = found.pop("step")
            out.append(found)
            if len(out) == steps:
                break
        return out

    def save(self) -> None:
        """Into its folder, in Hugging Face layout."""
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self.learner.model.save_pretrained(self.directory)
            self.renderer.tokenizer.save_pretrained(self.directory)

    def examine(self) -> dict[str, float]:
        """On the held-out triples: `exact` is the share whose diagnosis it writes to the letter, `usual` the share that
        the commonest diagnosis to learn from is right about, `leaks` the share that gives a value away."""
        policy = PolicyDiagnostician(
            str(self.directory), self.stage.context, self.stage.max_new_tokens, self._device
        )  # fmt: skip
        written = [policy.write(t.dialogue, t.place, t.gold) for t in self.held]
        usual = Counter(t.diagnosis for t in self.learned).most_common(1)[0][0]
        pairs = list(zip(written, self.held, strict=True))
        return {
            "exact": sum(text == t.diagnosis for text, t in pairs) / len(pairs),
            "usual": sum(usual == t.diagnosis for t in self.held) / len(pairs),
            "leaks": sum(bool(leaked(text, t.gold)) for text, t in pairs) / len(pairs),
        }
