# `make run` and `make test` set up what they need in .venv, without asking anything.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Two spinning torch threads on a busy machine take seconds for what takes 40 ms.
export OMP_WAIT_POLICY := PASSIVE

BIN := .venv/bin
CODE := $(wildcard specs engine trainers domains tests bench)

.PHONY: help setup run test check format bench lock build clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup:  ## an environment in .venv for this machine's hardware (CASTLINE_EXTRA=core|hf|cpu|gpu overrides)
	@bash .ci/setup

run: setup  ## critique the teaching domain's trajectories with the embedded model
	@$(BIN)/castline run domains/library --preset quick
	@command -v castline >/dev/null || echo "(castline is in .venv: '. .venv/bin/activate' puts it on the PATH)"

test: setup  ## the tests (ARGS="tests/specs -k loader" for some)
	@$(BIN)/python -m pytest $(ARGS)

check: setup  ## lint, format and types
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/pyright

format: setup  ## mend what lint and format can mend
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: setup  ## the benchmarks, which print ratios
	@for script in bench/*.py; do [ -e "$$script" ] || continue; echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

lock: setup  ## pin anew what each extra brings (constraints/)
	@bash .ci/lock

build: setup  ## the wheel, in dist/
	@$(BIN)/python -c 'from setuptools import build_meta as b; import os; os.makedirs("dist", exist_ok=True); print(b.build_wheel("dist"))' | tail -n 1

clean:  ## remove the environment and everything built
	rm -rf .venv .uv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +
