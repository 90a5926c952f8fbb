# `make run` and `make test` set everything up by themselves: python3 >= 3.11, make and git are enough; for `make test`
# also node >= 20 with npm.

PYTHON ?= python3
VENV := .venv
BARE := .venv-bare
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP_OPTIONS := --quiet --disable-pip-version-check
PIP := $(BIN)/python -m pip $(PIP_OPTIONS)
SDK := sdk/js
SDK_READY := $(SDK)/node_modules/.ready

.DEFAULT_GOAL := help
.PHONY: help run test lint types contract unit bare sdk faults bench vectors figure clean has-node

help:  ## say what each command does
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 16

run: $(READY)  ## the paper's panels, and those beyond it: results/report.html
	@$(BIN)/ldpbandits reproduce --out results

test: lint types contract unit bare sdk  ## every check
	@echo "all checks passed"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contract: $(READY)
	$(BIN)/lint-imports --no-logo

unit: $(READY)
	$(BIN)/pytest -n 2

# The built wheel, alone in an environment: it imports, nothing came with it, and device and agent pass their tests.
bare: $(READY)
	@rm -rf $(BARE) build/wheel
	@mkdir -p build
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . > build/wheel.log 2>&1 || (cat build/wheel.log; exit 1)
	$(PYTHON) -m venv $(BARE)
	$(BARE)/bin/python -m pip $(PIP_OPTIONS) install --no-index build/wheel/*.whl
	$(BARE)/bin/python -I tests/wheel_alone.py
	$(BARE)/bin/python -m pip $(PIP_OPTIONS) install -c constraints.txt pytest
	$(BARE)/bin/python -m pytest -p no:cacheprovider tests/device tests/agent
	@rm -rf $(BARE)

sdk: $(SDK_READY)  ## the JavaScript SDK: types, build, tests
	cd $(SDK) && npm run --silent check
	cd $(SDK) && npm run --silent build
	cd $(SDK) && npm run --silent test

faults: $(READY)  ## the server, killed for some minutes in every way we know
	LDPBANDITS_FAULTS=1 $(BIN)/pytest -n 2 tests/server/test_kill.py tests/server/test_state_machine.py

bench: $(READY)  ## what we claim about speed, measured beside the peers
	$(PIP) install -c constraints.txt --group peers
	$(BIN)/python benchmarks/curators.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/leap.py
	$(BIN)/python benchmarks/reference.py
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/tails.py
	$(BIN)/python benchmarks/threshold.py
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/epsilons.py
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/pending.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/server.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/audit_peers.py

vectors: $(READY)  ## write vectors/ anew
	$(BIN)/python vectors/write.py

figure: $(READY)  ## draw the picture of the README anew
	$(BIN)/python examples/readme_figure.py

clean:  ## remove what the other commands made
	rm -rf $(VENV) $(BARE) build dist results .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	rm -rf $(SDK)/node_modules $(SDK)/types $(SDK)/LICENSE

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "ldpbandits needs Python 3.11 or newer; make PYTHON=/path/to/python3.11 says which to use" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
		|| { echo "python3 has no venv module: install it (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV), about half a minute ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt pip
	@$(PIP) install -c constraints.txt --group dev
	@$(PIP) install -c constraints.txt --no-build-isolation --editable '.[lab,server]'
	@touch $@

$(SDK_READY): $(SDK)/package-lock.json | has-node
	cd $(SDK) && npm ci --silent
	@touch $@

# Not part of the stamp: a machine can lose its node.
has-node:
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2> /dev/null && npm --version > /dev/null 2>&1 \
		|| { echo "the JavaScript SDK needs Node 20 or newer with npm: install them, or put them on the PATH" >&2; exit 1; }
