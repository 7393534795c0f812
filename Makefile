# Two commands do everything: `make demo` shows the tool working, `make test` runs every check.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-engine fmt lint types imports unit hosts docs clean

help:            ## what can be made
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c '' 2>/dev/null || { echo "$(PYTHON) does not run here; say which Python to use with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tune needs Python 3.11 or newer; say which one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/.installed  ## rehearse the Kimi K2.6 sweep on the simulated engine
	$(BIN)/tune sweep sweeps/k26_pp.yaml --sim --yes

test: lint types imports unit hosts  ## format, lint, strict types, import contracts, unit and real-host tests

fmt: .venv/.installed  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.installed
	$(BIN)/mypy

imports: .venv/.installed
	$(BIN)/lint-imports

unit: .venv/.installed
	$(BIN)/pytest -m "not hosts and not engine" -n 2 --dist worksteal

hosts: .venv/.installed  ## tests on real systemd and sshd hosts (needs root, systemd-nspawn, sshd)
	$(BIN)/pytest -m "hosts and not engine" -n 3 --dist worksteal

test-engine: .venv/.installed  ## the same against a real SGLang on such a host: make test-engine ENGINE=DIR (about 30 min)
	@test -n "$(ENGINE)" || { echo "make test-engine needs a real engine: make test-engine ENGINE=DIR; CONTRIBUTING.md says what DIR holds" >&2; exit 2; }
	TUNE_BED=required TUNE_ENGINE="$(ENGINE)" $(BIN)/pytest -m engine -v -s

docs: .venv/.installed  ## write docs/flags.md anew from the catalogue
	$(BIN)/python -c 'from orchestrator.core.flags.page import catalogue_page; print(catalogue_page(), end="")' > docs/flags.md

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
