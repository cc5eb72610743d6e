#!/usr/bin/env bash
# Makes the environment of bench/language/fuzz.py in bench/language/.venv: atheris (a fuzzer guided by coverage) and what
# the front end needs. atheris is no dependency of ours. Run again, it does nothing that is done already.
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python3}"
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip=".venv/bin/python -m pip install --quiet --disable-pip-version-check"
$pip "atheris==3.0.0" "click>=8.1" "lark>=1.2.2,<2" "pydantic>=2.9,<3" "jinja2>=3.1"
$pip --no-deps --editable ../..
.venv/bin/python -c 'import atheris, rlspec.compiler.check; print("atheris is there")'
