# One Makefile for people and for CI. Every target makes what it needs; nothing else has to be installed
# but Python >= 3.11. Another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check diagram verify test-all format clean

help:          ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## every interleaving of 4 prompts and 2 cancels, and the table of states
	$(BIN)/python -m sessionsched.testing.explore --prompts 4 --cancels 2
	@echo
	$(BIN)/python -m sessionsched.diagram --table

test: $(READY) ## the tests, with the coverage that they must reach
	HYPOTHESIS_PROFILE=$(if $(CI),ci,dev) $(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage report

check: $(READY) ## ruff, format, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

diagram: $(READY) ## print docs/state-diagram.md from ROWS
	$(BIN)/python -m sessionsched.diagram --write docs/state-diagram.md

verify: $(READY) ## the heavy exploration: minutes, and millions of states
	$(BIN)/python -m sessionsched.testing.explore --plan thorough

test-all: ## the tests on every Python that we support
	$(MAKE) test PYTHON=python3.11 VENV=.venv-3.11
	$(MAKE) test PYTHON=python3.12 VENV=.venv-3.12
	$(MAKE) test PYTHON=python3.13 VENV=.venv-3.13

format: $(READY) ## let ruff write it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was made
	rm -rf .venv .venv-* .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
