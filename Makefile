# make demo   all set-up (core only), then the main job on a made-up population
# make test   all set-up, then every test
# make lint   ruff and strict mypy
# make peers  .venv-peers: libraries that benchmarks measure against

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
NEEDS := python3 (3.11 or newer, with venv), make and git. On Debian: apt-get install -y python3 python3-venv git make

.PHONY: demo test lint bench peers clean
.DELETE_ON_ERROR:

demo: $(VENV)/.core
	rm -rf demo
	$(BIN)/nabladp demo demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests bench docs examples
	$(BIN)/ruff format --check src tests bench docs examples
	$(BIN)/mypy

peers: $(PEERS)/.done

clean:
	rm -rf $(VENV) $(PEERS) demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

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

$(PEERS)/.done: bench/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
