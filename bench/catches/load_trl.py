"""Builds TRL's `GRPOConfig` from each set of arguments on standard input; prints mistake -> first line of its error."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
from trl import GRPOConfig  # noqa: E402

SOUND = {"use_cpu": True, "bf16": False, "report_to": [], "per_device_train_batch_size": 16, "num_generations": 8}


def error(arguments: dict) -> str:
    """What GRPOConfig says against these arguments, "" when it takes them."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            GRPOConfig(output_dir=folder, **{**SOUND, **arguments})
        except Exception as problem:  # whatever it is, the peer has refused
            return f"{type(problem).__name__}: {problem}".splitlines()[0]
    return ""


if __name__ == "__main__":
    if error({}):
        sys.exit(f"the sound configuration is refused: {error({})}")
    print(json.dumps({what: error(arguments) for what, arguments in json.load(sys.stdin).items()}))
