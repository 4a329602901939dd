# Needs only python3 (3.11 or newer) and make. Everything is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.PHONY: setup demo test test-slow test-integrations integrations lint browser others bench pretrained tables docs docs-serve dist clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Hindsight needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@echo "Setting up .venv (once; about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt -e '.[robotics,report,tune,store,docs,dev]'
	@touch $@

demo: setup
	@$(BIN)/hindsight demo

test: setup others lint browser
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

# They learn, so their programs are those of users, not the ones that tests make sooner.
test-slow: integrations
	XLA_FLAGS= $(BIN)/pytest -m slow

# With the libraries that are heavy to install; `make test` skips what needs them.
test-integrations: integrations
	$(BIN)/pytest tests/integrations tests/test_docs.py -m "not slow"

integrations: setup
	@$(PIP) install -c constraints.txt -e '.[wandb,mlflow,minari,sb3,envs]'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Other people's envs, which are inspected in the tests.
others: setup
	@$(PIP) install -c constraints.txt -e '.[envs]'

# A test opens the report page in Chromium. Without it that test is skipped, unless CI=true.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium for the tests ..." && \
	    { apt-get -qq update; apt-get -qq install -y --no-install-recommends chromium >/dev/null; }; } || \
	  echo "no Chromium here: the report page is not tested in a browser"

bench: setup
	@$(PIP) install -c constraints.txt -e '.[bench,sb3]'
	@$(PIP) install --no-deps nnabla-rl==0.16.0
	@for what in learner updates simulation training asynchronous replay sb3 sb3_learning; do $(BIN)/python -m benchmarks $$what; done

# The policies that come with the library, made anew (ENVS=FetchPush-v4: only that one).
pretrained: setup
	@$(BIN)/python -m hindsight.commands.pretrain $(ENVS)

tables: setup
	@$(BIN)/hindsight reproduce --tables

# The site, in site/. Nothing on it is loaded from the network: site/index.html opens as it is.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

docs-serve: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

# A wheel that installs without the repository, in dist/.
dist: setup
	@rm -rf build dist
	@$(BIN)/python -m build --wheel . >/dev/null
	@ls dist/*.whl

clean:
	rm -rf .venv site build dist
