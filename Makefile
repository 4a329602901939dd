# Needs only python3 (3.11 or newer) and make. Everything is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.PHONY: setup demo test test-slow lint bench tables clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Hindsight needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@echo "Setting up .venv (once; about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt -e '.[robotics,report,dev]'
	@touch $@

demo: setup
	@$(BIN)/hindsight demo

test: setup lint
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: setup
	$(BIN)/pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	@$(PIP) install -c constraints.txt -e '.[bench]'
	@$(PIP) install --no-deps nnabla-rl==0.16.0
	@for what in learner simulation training replay; do $(BIN)/hindsight bench $$what; done

tables: setup
	@$(BIN)/hindsight reproduce --tables

clean:
	rm -rf .venv
