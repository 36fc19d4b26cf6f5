# make demo   all set-up (core only), then the main job on a made-up population
# make check  the daily loop: lint, types, and the tests that are neither slow nor need Spark, PostgreSQL or a browser
# make test   all set-up, then every test
# make lint   ruff and strict mypy
# make peers  .venv-peers, -diffprivlib, -mbi, …: libraries that benchmarks measure against; their pins clash
# make coverage  branches of privacy, noise and mechanisms that the tests take; fails below 95 %
# make mutants   mutation testing of privacy and noise (docs/mutation.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
EXTRA_PEERS := qrlew pipelinedp tumult
WORKERS := 3  # one more than cores: tests wait for browsers, databases and other processes
NEEDS := python3 (3.11 or newer, with venv), make and git. On Debian: apt-get install -y python3 python3-venv git make

# Tests start many processes: Python's files are compiled once, not by each.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo check test lint bench peers coverage mutants clean
.DELETE_ON_ERROR:

demo: $(VENV)/.core
	rm -rf demo
	$(BIN)/nabladp demo demo

check: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not spark and not postgres and not browser"

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests bench docs examples
	$(BIN)/ruff format --check src tests bench docs examples
	$(BIN)/mypy

peers: $(PEERS)/.done $(PEERS)-diffprivlib/.done $(PEERS)-mbi/.done $(PEERS)-smartnoise/.done \
	$(PEERS)-smartnoise-sql/.done $(PEERS)-opendp-polars/.done $(PEERS)-sdnist/.done $(EXTRA_PEERS:%=$(PEERS)-%/.done)

coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2
	$(BIN)/coverage combine -q
	$(BIN)/coverage json -q -o - | $(BIN)/python tests/helpers/branches.py 95

mutants: $(VENV)/.mutants
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/helpers/mutants.py run
	$(BIN)/python tests/helpers/mutants.py table

clean:
	rm -rf $(VENV) $(PEERS) $(PEERS)-* demo dist mutants .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& command -v git >/dev/null || { echo "nabladp needs $(NEEDS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,mutants]'
	@touch $@

$(PEERS)/.done: bench/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(PEERS)-%/.done: bench/peers/requirements-%.txt
	$(PYTHON) -m venv $(PEERS)-$*
	$(PEERS)-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# These may fail: they have few wheels, and a benchmark goes on without them.
$(EXTRA_PEERS:%=$(PEERS)-%/.done): $(PEERS)-%/.done: bench/peers/requirements-%.txt
	$(PYTHON) -m venv $(PEERS)-$*
	@{ $(PEERS)-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@; } \
		|| { rm -rf $(PEERS)-$*; echo "$* is left out: it does not install here" >&2; }

# This one, too: it takes Python 3.10 to 3.14, and lists more than its MWEM needs (hence --no-deps).
$(PEERS)-smartnoise/.done: bench/peers/requirements-smartnoise.txt
	$(PYTHON) -m venv $(PEERS)-smartnoise
	@{ $(PEERS)-smartnoise/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $< \
		&& $(PEERS)-smartnoise/bin/python -c 'import snsynth.mwem' && touch $@; } \
		|| { rm -rf $(PEERS)-smartnoise; echo "smartnoise-synth is left out: it does not install here" >&2; }
