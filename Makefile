# `make run` and `make test` set everything up by themselves: python3 >= 3.11, make and git are enough; for `make test`
# also node >= 20 with npm, and for its tests of web pages a Chromium, which `make browser` installs.

PYTHON ?= python3
VENV := .venv
BARE := .venv-bare
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP_OPTIONS := --quiet --disable-pip-version-check
PIP := $(BIN)/python -m pip $(PIP_OPTIONS)
SDK := sdk/js
SDK_READY := $(SDK)/node_modules/.ready
FIND_CHROMIUM := { command -v "$${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome; }

.DEFAULT_GOAL := help
.PHONY: help run test lint types contract unit bare sdk pages browser faults bench vectors figure clean has-node

help:  ## say what each command does
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 16

run: $(READY)  ## the paper's panels, and those beyond it: results/report.html
	@$(BIN)/ldpbandits reproduce --out results

test: lint types contract unit bare sdk pages  ## every check
	@echo "all checks passed"
	@$(FIND_CHROMIUM) > /dev/null \
		|| echo "BUT THE TESTS OF WEB PAGES WERE NOT RUN: THERE IS NO CHROMIUM HERE. 'make browser' INSTALLS ONE."

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

# Where there is no Chromium they are left out, and `make test` says so at its end; but not in CI.
pages: $(READY) $(SDK_READY)  ## the tests of web pages, in a real Chromium
	@if chromium=$$($(FIND_CHROMIUM)); then \
		CHROMIUM=$$chromium PYTHON=$(abspath $(BIN))/python node --test --test-concurrency=1 --test-reporter=spec tests/browser/*.test.mjs; \
	elif [ "$$CI" = true ]; then \
		echo "there is no Chromium: run 'make browser' first" >&2; exit 1; \
	fi

browser:  ## install Debian's Chromium, for the tests of web pages
	@$(FIND_CHROMIUM) > /dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
			|| { echo "a Chromium is needed: as root, apt-get install chromium; or set CHROMIUM to the path of one" >&2; exit 1; }; \
		apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends chromium; \
	}

faults: $(READY)  ## the server, killed for some minutes in every way we know
	LDPBANDITS_FAULTS=1 $(BIN)/pytest -n 2 tests/server/test_kill.py tests/server/test_state_machine.py

bench: $(READY) $(SDK_READY)  ## what we claim about speed, measured beside the peers
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
	node benchmarks/tabs.mjs

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
