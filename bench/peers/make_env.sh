#!/usr/bin/env bash
# Makes the environment of the libraries that the benchmarks compare with, in bench/peers/.venv.
# They get one of their own: their pins exclude each other's and ours. verl comes without its dependencies (they want a
# GPU build of vllm); what its advantage code imports is listed here. Run again, it does nothing that is done already.
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python3}"
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip=".venv/bin/python -m pip install --quiet --disable-pip-version-check"
$pip "torch==2.13.0" "numpy==2.3.5"
$pip "transformers==5.19.0" "trl==1.16.0"
$pip "ray>=2.50" "tensordict==0.10.0" codetiming hydra-core omegaconf "antlr4-python3-runtime==4.9.3" pyvers \
  importlib_metadata orjson zipp msgpack
$pip --no-deps "verl==0.9.1"
.venv/bin/python - <<'PYTHON'
from importlib.metadata import version

from trl.trainer.utils import nanstd  # noqa: F401
from verl.trainer.ppo import core_algos  # noqa: F401

print("verl", version("verl"), "and trl", version("trl"), "with torch", version("torch"))
PYTHON
