# One Makefile for people and for CI. Every target makes what it needs; nothing else has to be installed
# but Python >= 3.11. Another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := .venv-peers

PROFILE  := HYPOTHESIS_PROFILE=$(if $(CI),ci,dev)
UNTRACED := $(VENV)/test-untraced.log

.DEFAULT_GOAL := help
.PHONY: help demo test test-traced test-untraced check diagram docs verify mutants bench bench-peers bench-plot test-all format clean

help:          ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## a show on a real scheduler; then every interleaving of 4 prompts and 2 cancels
	$(BIN)/sessionsched demo
	@echo
	$(BIN)/sessionsched explore --prompts 4 --cancels 2

# In two halves, side by side. The first alone must cover every branch, so the second is not traced, which
# would slow it down most; what it says is kept, and shown when both are through.
test: $(READY) ## the tests, with the coverage that they must reach
	@$(MAKE) --no-print-directory --jobs=2 --keep-going test-traced test-untraced; failed=$$?; \
		cat $(UNTRACED); exit $$failed

test-traced: $(READY)
	$(PROFILE) $(BIN)/python -m coverage run -m pytest tests/unit tests/mutants
	$(BIN)/python -m coverage report

test-untraced: $(READY)
	$(PROFILE) $(BIN)/python -m pytest tests/property >$(UNTRACED) 2>&1

check: $(READY) ## ruff, format, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

diagram: $(READY) ## print docs/state-diagram.md from ROWS
	$(BIN)/python -m sessionsched.diagram --write docs/state-diagram.md

docs: $(VENV)/.docs-ready ## the site, into site/; a link that leads nowhere is an error
	$(BIN)/mkdocs build --strict # not --quiet: what isn't said isn't counted, and nothing fails

$(VENV)/.docs-ready: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

verify: $(READY) ## the heavy part: a soak, thread schedules, the zoo, a million orders, millions of states
	$(BIN)/python -m sessionsched.testing.soak --seconds 120
	$(BIN)/python tests/property/baton_deep.py --deviations 2 --limit 5000
	$(BIN)/python -m sessionsched.testing.zoo --examples 10000
	$(BIN)/python -m sessionsched.testing.simulate --seeds 1000000 --jobs 2
	$(BIN)/python -m sessionsched.testing.simulate --seeds 20 --deviations 3 --limit 5000
	$(BIN)/python -m sessionsched.testing.explore --plan thorough

mutants: $(VENV)/.mutants-ready ## break the core in every small way: FILES="src/sessionsched/line.py" for less
	$(BIN)/python tests/mutants/check.py $(FILES)

$(VENV)/.mutants-ready: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	@touch $@

bench: $(READY) ## how fast it is, with the bar of each work, in 2 to 4 minutes: ARGS="--only W1,W7 --json FILE"
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(PEERS)/.ready ## the same work on other libraries, in an environment of their own
	$(PEERS)/bin/python -m benchmarks.peers $(ARGS)

$(PEERS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@for peer in anyio aiojobs pykka thespian taskiq apscheduler autogen-core langgraph; do \
		$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check $$peer \
			|| echo "$$peer doesn't install here: left out"; \
	done
	@touch $@

bench-plot: $(READY) $(PEERS)/.ready ## measure both, and print docs/performance.md with its picture
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m benchmarks --json benchmarks/measured/bench.json
	$(PEERS)/bin/python -m benchmarks.peers --json benchmarks/measured/peers.json
	$(BIN)/python -m benchmarks.page

test-all: ## the tests on every Python that we support
	$(MAKE) test PYTHON=python3.11 VENV=.venv-3.11
	$(MAKE) test PYTHON=python3.12 VENV=.venv-3.12
	$(MAKE) test PYTHON=python3.13 VENV=.venv-3.13

format: $(READY) ## let ruff write it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was made
	rm -rf .venv .venv-* .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .mutants dist site
