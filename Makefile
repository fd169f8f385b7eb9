# Run `make` to see the targets. Needs Python >= 3.11 with pip and venv; nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNNABLE := $(VENV)/.runnable

# Otherwise every process that a test starts compiles all modules again.
export PYTHONDONTWRITEBYTECODE :=

# The site links to where this copy came from, if that is a page of the web.
export REPOSITORY_URL ?= $(shell git config remote.origin.url | sed -nE 's|^git@([^:]+):|https://\1/|; s|\.git$$||; /^https?:/p')

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format options docs site bench bench-quick dist clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the package and its development tools

demo: $(RUNNABLE) ## train PPO in CartPole and save it in a new folder under runs/
	$(BIN)/jaxagents train --preset ppo-cartpole
	@echo 'To run these commands, first activate the environment: . $(BIN)/activate'

test: $(STAMP) ## run the quick tests (select some with ARGS="-k ppo")
	$(BIN)/python -m pytest $(ARGS)

test-all: $(STAMP) ## run all tests, including slow ones, docs, examples and benchmarks
	$(BIN)/python -m pytest -m "" $(ARGS)

lint: $(STAMP) ## check style, formatting, types and the documentation build
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(STAMP) ## format the code and apply the safe fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

options: $(STAMP) ## update the table of agent options of the command line
	PYTHONPATH=tests $(BIN)/python -m option_table

docs: $(STAMP) ## serve the documentation at http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

site: $(STAMP) ## build the documentation into site/, with the output of the tutorials
	RUN_TUTORIALS=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP) ## compare the speed and returns of PPO with other libraries
	$(BIN)/python benchmarks/ppo_speed.py $(ARGS)

bench-quick: $(STAMP) ## compare the speed of six tasks with rejax and with the saved ratios
	$(BIN)/python benchmarks/quick.py $(ARGS)

dist: ## build the wheel and the source distribution, and test the wheel
	rm -rf build dist
	$(PYTHON) -m venv build/env
	build/env/bin/python -m pip install --disable-pip-version-check build
	build/env/bin/python -m build
	build/env/bin/python -m pip install --disable-pip-version-check dist/*.whl
	cd build && env/bin/python -c "import jaxagents; print(jaxagents.__version__, jaxagents.PPO)"
	cd build && env/bin/jaxagents train ppo --help

clean: ## remove build outputs and caches (keeps runs/ and .venv)
	rm -rf build dist site .pytest_cache .ruff_cache
	find . -name .venv -prune -o -name runs -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "jaxagents needs Python >= 3.11; name one with: make PYTHON=python3.12 setup" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Python compiles modules on all cores, pip on one. Templates among them do not compile.
$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -e ".[dev]"
	-@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
	@touch $@ $(RUNNABLE)

# Most of these modules are never imported, so leave compiling them to the first import.
$(RUNNABLE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -e ".[export,plot,video]"
	@touch $@
