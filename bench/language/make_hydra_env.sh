#!/usr/bin/env bash
# Makes the environment of Hydra, with which bench/language/time.py compares, in bench/language/.venv: nothing but Hydra,
# so that it starts as fast as it can. Run again, it does nothing that is done already.
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python3}"
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "hydra-core==1.3.8"
.venv/bin/python -c 'from importlib.metadata import version; print("hydra-core", version("hydra-core"), "omegaconf", version("omegaconf"))'
