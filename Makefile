# `make run` and `make test` set everything up by themselves: python3 >= 3.11, make and git are enough; for `make test`
# also node >= 20 with npm, for its tests of web pages a Chromium, which `make browser` installs, and for those of
# deploy/ and of shells what `make tools` gets.

PYTHON ?= python3
VENV := .venv
BARE := .venv-bare
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP_OPTIONS := --quiet --disable-pip-version-check
PIP := $(BIN)/python -m pip $(PIP_OPTIONS)
PYTEST_OPTIONS := -n 4 --timeout 600
SDK := sdk/js
SDK_READY := $(SDK)/node_modules/.ready
FIND_CHROMIUM := { command -v "$${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome; }
TOOLS := build/tools
FIND_TOOLS := PATH="$(TOOLS)/usr/bin:$(TOOLS)/usr/sbin:$$PATH"; for tool in caddy nginx promtool systemd-analyze openssl zsh fish; do command -v $$tool; done

.DEFAULT_GOAL := help
.PHONY: help run test apart outside lint types contract unit bare pythons sdk pages pictures docs browser tools faults bench vectors notebooks figure dist clean has-node

help:  ## say what each command does
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 16

run: $(READY)  ## the paper's panels, and those beyond it: results/report.html
	@$(BIN)/ldpbandits reproduce --out results

test: apart unit outside  ## every check
	@echo "all checks passed"
	@$(FIND_CHROMIUM) > /dev/null \
		|| echo "BUT THE TESTS OF WEB PAGES WERE NOT RUN: THERE IS NO CHROMIUM HERE. 'make browser' INSTALLS ONE."
	@[ "$$($(FIND_TOOLS) | wc -l)" -ge 7 ] \
		|| echo "BUT SOME FILES OF deploy/ AND OF SHELLS WERE NOT CHECKED: 'make tools' FETCHES WHAT THEY ARE CHECKED BY."

# Each of these keeps one core busy.
apart: $(READY) $(SDK_READY)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint types contract sdk

# The wheel is tested by Python and the disk, web pages by a browser that mostly waits.
outside: $(READY) $(SDK_READY)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync bare pages

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contract: $(READY)
	$(BIN)/lint-imports --no-logo

# Four at a time, also on two cores: half of the time tests wait, for disks, clocks and the programs that they start. What
# takes ten minutes will never end: it fails, and says where it is. Device and agent are tested below.
unit: $(READY)
	$(BIN)/pytest $(PYTEST_OPTIONS) --ignore tests/device --ignore tests/agent

# The built wheel, alone in an environment: it imports, nothing came with it, and device and agent pass their tests. They
# are tested here only, where they are to live: without any of the extras.
bare: $(READY)
	@rm -rf $(BARE) build/wheel
	@mkdir -p build
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . > build/wheel.log 2>&1 || (cat build/wheel.log; exit 1)
	$(PYTHON) -m venv $(BARE)
	$(BARE)/bin/python -m pip $(PIP_OPTIONS) install --no-index build/wheel/*.whl
	$(BARE)/bin/python -I tests/wheel_alone.py
	$(BARE)/bin/python -m pip $(PIP_OPTIONS) install -c constraints.txt pytest pytest-timeout pytest-xdist
	$(BARE)/bin/python -m pytest $(PYTEST_OPTIONS) -q -p no:cacheprovider tests/device tests/agent
	@rm -rf $(BARE)

# Every Python from 3.11 on that is on the PATH or that pyenv has, then the lowest versions that pyproject.toml allows,
# on the oldest Python found. `PYTHONS` names others.
PYTHONS ?= $(shell for minor in 11 12 13 14 15; do \
	{ command -v python3.$$minor; ls -d $$HOME/.pyenv/versions/3.$$minor.*/bin/python3.$$minor 2> /dev/null; } \
	| while read -r each; do "$$each" -c 'import venv' 2> /dev/null && echo "$$each" && break; done; done)
UNIT_TESTS := tests/device tests/agent tests/spec tests/server

pythons:  ## unit tests of device, agent, spec and server on every Python found, and with the lowest versions
	@mkdir -p build
	@[ -n "$(PYTHONS)" ] || { echo "no Python from 3.11 on was found" >&2; exit 1; }
	@set -e; for python in $(PYTHONS); do echo "== $$python"; rm -rf build/pythons; $$python -m venv build/pythons; \
		build/pythons/bin/python -m pip $(PIP_OPTIONS) install -c constraints.txt pip; \
		build/pythons/bin/python -m pip $(PIP_OPTIONS) install -c constraints.txt --group test --editable '.[lab,server]'; \
		build/pythons/bin/python -m pytest $(PYTEST_OPTIONS) -q -p no:cacheprovider $(UNIT_TESTS); done
	@set -e; python=$(firstword $(PYTHONS)); echo "== $$python, lowest versions"; rm -rf build/pythons; $$python -m venv build/pythons; \
		$$python .ci/lowest.py > build/lowest.txt; \
		build/pythons/bin/python -m pip $(PIP_OPTIONS) install -c constraints.txt pip; \
		build/pythons/bin/python -m pip $(PIP_OPTIONS) install --group test --constraint build/lowest.txt --editable '.[lab,server]'; \
		build/pythons/bin/python -m pytest $(PYTEST_OPTIONS) -q -p no:cacheprovider $(UNIT_TESTS)
	@rm -rf build/pythons

sdk: $(SDK_READY)  ## the JavaScript SDK: types, build, tests
	cd $(SDK) && npm run --silent check
	cd $(SDK) && npm run --silent build
	cd $(SDK) && npm run --silent test
	cd $(SDK) && npm run --silent test:sqlite

# Where there is no Chromium they are left out, and `make test` says so at its end; but not in CI.
pages: $(READY) $(SDK_READY) docs  ## the tests of web pages, in a real Chromium
	@if chromium=$$($(FIND_CHROMIUM)); then \
		CHROMIUM=$$chromium PYTHON=$(abspath $(BIN))/python node --test --test-concurrency=1 --test-timeout=600000 --test-reporter=spec tests/browser/*.test.mjs; \
	elif [ "$$CI" = true ]; then \
		echo "there is no Chromium: run 'make browser' first" >&2; exit 1; \
	fi

pictures: $(READY) $(SDK_READY)  ## a picture of every page, light, dark and on a phone: build/pictures
	@chromium=$$($(FIND_CHROMIUM)) || { echo "there is no Chromium: run 'make browser' first" >&2; exit 1; }; \
	CHROMIUM=$$chromium PYTHON=$(abspath $(BIN))/python node tests/browser/pictures.mjs

# Strict: a warning, a link or a place on a page that is not there, or anything that a page loads from elsewhere, fails.
docs: $(READY)  ## the docs site: build/site
	@rm -rf build/site build/doctrees
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -d build/doctrees docs build/site
	$(BIN)/python docs/_ext/check_site.py build/site

browser:  ## install Debian's Chromium, for the tests of web pages
	@$(FIND_CHROMIUM) > /dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
			|| { echo "a Chromium is needed: as root, apt-get install chromium; or set CHROMIUM to the path of one" >&2; exit 1; }; \
		apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends chromium; \
	}

# Proxies and Prometheus are unpacked, not installed: nobody wants them to run because they test this.
tools:  ## get Debian's caddy, nginx, promtool, systemd-analyze, openssl, zsh and fish, for the tests that need them
	@missing=; command -v systemd-analyze > /dev/null || missing=systemd; \
	for each in openssl zsh fish; do command -v $$each > /dev/null || missing="$$missing $$each"; done; \
	[ -z "$$missing" ] || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
			|| { echo "these are needed: as root, apt-get install $$missing" >&2; exit 1; }; \
		apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends $$missing; \
	}
	@[ "$$($(FIND_TOOLS) | wc -l)" -ge 7 ] || { \
		command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null \
			|| { echo "caddy, nginx and promtool are needed: put them on the PATH" >&2; exit 1; }; \
		{ [ "$$(id -u)" != 0 ] || apt-get update --quiet; } && mkdir -p $(TOOLS) && cd $(TOOLS) \
			&& apt-get download --quiet caddy nginx prometheus && for package in *.deb; do dpkg-deb --extract $$package .; done \
			&& rm *.deb; \
	}

faults: $(READY)  ## for some minutes: the server killed in every way we know, and every fault planted
	LDPBANDITS_FAULTS=1 $(BIN)/pytest -n 2 tests/server/test_kill.py tests/server/test_state_machine.py \
		tests/server/test_postgres_faults.py tests/server/test_postgres_rules.py tests/server/test_postgres_standby.py \
		tests/server/test_shared_state_machine.py \
		tests/lab/test_leap.py tests/lab/test_leap_policies.py tests/lab/test_regions.py tests/audit

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
	$(BIN)/python benchmarks/verdicts.py
	$(BIN)/python benchmarks/epsilons.py
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/pending.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/server.py
	$(BIN)/python benchmarks/routes.py
	$(BIN)/python benchmarks/deletion.py
	$(BIN)/python benchmarks/reports.py
	$(BIN)/python benchmarks/capacity.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/backup.py
	$(BIN)/python benchmarks/balance.py
	$(BIN)/python benchmarks/staleness.py
	$(BIN)/python benchmarks/budgets.py
	$(BIN)/python benchmarks/shuffling.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/audit_time.py
	$(BIN)/python benchmarks/audit_peers.py
	$(BIN)/python benchmarks/walk.py
	node benchmarks/tabs.mjs

vectors: $(READY)  ## write vectors/ anew
	$(BIN)/python vectors/write.py

notebooks: $(READY)  ## run the notebooks of docs/ and keep what they print and draw
	$(BIN)/python docs/_ext/run_notebooks.py --write

figure: $(READY)  ## draw the pictures of the README and of docs/paper.md anew
	$(BIN)/python examples/what_the_server_sees.py
	$(BIN)/python examples/regret_figure.py

dist: $(READY) $(SDK_READY)  ## the wheel, the source archive and the npm package, built twice: the same bytes
	@PYTHON=$(abspath $(BIN))/python .ci/dist

clean:  ## remove what the other commands made
	rm -rf $(VENV) $(BARE) build dist results .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	rm -rf $(SDK)/node_modules $(SDK)/types $(SDK)/dist $(SDK)/LICENSE

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
