# Every target does its own set-up, into .venv and the user's cache folder.
PY := .venv/bin/python

.PHONY: help setup demo test check format gpu-check doctor clean

help: ## What there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## Install into .venv and prepare the models
	@.ci/setup

demo: setup ## Three agents on three real vLLM engines solve generated problems
	@$(PY) -m experiments run demo

test: setup ## All tests: real Ray, real vLLM, real FAISS
	@$(PY) -m pytest

check: setup ## Format, lint, types, import contracts, fast tests
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@$(PY) -m pytest -m "not slow and not gpu"

format: setup ## Write the format, and what the linter can mend
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

gpu-check: ## On a machine with one NVIDIA GPU: the official vllm end to end
	@.ci/setup gpu
	@$(PY) -m pytest -m gpu

doctor: setup ## Check this machine
	@$(PY) -m experiments doctor

clean: ## Remove what tools left in the checkout; runs and the model cache stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
