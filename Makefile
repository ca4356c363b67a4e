# `make demo` and `make test` set up all that they need in .venv; nothing else has to be installed
# than make, git and a Python from 3.11 to 3.14.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2

# The first Python that really runs and can make an environment: a pyenv shim may only fail.
FITS := import ensurepip, sys, venv; (3, 11) <= sys.version_info[:2] <= (3, 14) and print(sys.executable)
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3 /usr/bin/python3; do \
	found=$$($$python -c '$(FITS)' 2>/dev/null) && [ -n "$$found" ] && { echo "$$found"; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help demo test lint types completions bench wheel clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: $(INSTALLED) ## check a real Hermes 0.20.4, brought up in the lab for it
	$(BIN)/hermesctl check --lab

# A test on a real Hermes can miss its time on a busy machine: it is run once more, and told as such.
test: $(INSTALLED) ## the whole suite, live tests on real Hermes releases included
	$(BIN)/pytest -n $(WORKERS) --reruns 1

lint: $(INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy --strict
	$(BIN)/mypy

completions: $(INSTALLED) ## write completions/ anew
	$(BIN)/hermesctl completion bash > completions/hermesctl.bash
	$(BIN)/hermesctl completion zsh > completions/_hermesctl
	$(BIN)/hermesctl completion fish > completions/hermesctl.fish

bench: $(INSTALLED) ## measure start-up, streams, a check and a fleet against their limits
	@missed=; for measure in start_up event_stream tail check fleet; do \
		echo "== $$measure"; $(BIN)/python -m tests.bench.$$measure || missed="$$missed $$measure"; \
	done; [ -z "$$missed" ] || { echo "over a limit:$$missed" >&2; exit 1; }

wheel: $(INSTALLED) ## build dist/*.whl
	$(BIN)/python -m build --wheel

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 to 3.14 with venv found: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
