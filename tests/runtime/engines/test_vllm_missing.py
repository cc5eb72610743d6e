"""Without vLLM, or with one that does not import, making its engine says what to type."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from rlspec.runtime.engines.vllm import VllmEngine
from rlspec.runtime.refusal import Refusal


def test_a_missing_vllm_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Refusal, match="RLC0710: vLLM is not installed") as refused:
        VllmEngine("nowhere", 1, 8, 1.0, 1, [])
    assert refused.value.cure == "make env-vllm"


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.0}, {"capacity": 0}, {"max_new_tokens": 0}, {"context": 2}],
)
def test_settings_that_cannot_work_are_refused_before_vllm_is_imported(settings: dict[str, float]) -> None:
    sizes: dict[str, float] = {"capacity": 1, "context": 8, "max_new_tokens": 1, "temperature": 1.0}
    with pytest.raises(ValueError, match="are needed"):
        VllmEngine("nowhere", stop_tokens=[], **(sizes | settings))  # type: ignore[arg-type]


def test_the_module_does_not_import_vllm() -> None:
    code = "import sys, rlspec.runtime.engines.vllm; sys.exit('vllm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
