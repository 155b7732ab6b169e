# Everything here sets itself up: it needs python3 (3.11 or newer), make and the package index.
# Written for GNU make 3.81, which macOS still ships.

PYTHON ?= python3
VENV ?= .venv
DEMO ?= examples/support-agent.otlp.jsonl.gz
WORKERS ?= 2
UV_VERSION := 0.13.9

BIN := $(VENV)/bin
CORE := $(VENV)/core.stamp
DEV := $(VENV)/dev.stamp
SELF := $(VENV)/self.stamp
PEERS := $(VENV)/peers.stamp
FUZZER := $(VENV)/fuzzer.stamp
# Hashes pin every file, wheels only: nothing is compiled here, and no build backend is fetched unlocked.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --require-hashes

.DEFAULT_GOAL := help
.PHONY: help demo test check format docs bench fuzz e2e lock clean python FORCE

help:  ## what there is
	@awk -F ':.*  ## ' '/^[a-z0-9]+:.*  ## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(CORE) $(SELF)  ## read the example dump and print the report
	$(BIN)/otelctx analyze $(DEMO)

test: $(DEV) $(SELF)  ## the tests (PYTEST_ARGS="-k sniff" passes arguments on)
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

check: $(DEV) $(SELF)  ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV) $(SELF)  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV) $(SELF)  ## write the pages that are made of tables anew
	$(BIN)/python -m pytest -q tests/test_pages.py --update

bench: $(DEV) $(SELF) $(PEERS)  ## speed, against a floor and against peers
	PYTHONPATH=$(VENV)/peers $(BIN)/python tests/bench/run.py

DURATION ?= 600
fuzz: $(DEV) $(SELF) $(FUZZER)  ## look for inputs that hurt (DURATION=600 seconds; what was learnt stays in .fuzz)
	PYTHONPATH=.:$(VENV)/fuzzer $(BIN)/python -m tests.fuzz.run --seconds $(DURATION) --workers $(WORKERS) $(FUZZ_ARGS)

# The servers are built once, into $$OTELCTX_E2E_CACHE (default ~/.cache/otelctx-e2e): needs Go, and Debian's apt-get or
# prometheus, promtool and jsonnet on the PATH. Without Node and npm the JavaScript agent's tests are skipped.
e2e: $(DEV) $(SELF)  ## real Collector, Jaeger, Prometheus, Alertmanager (PYTEST_ARGS="-k alerts")
	@$(BIN)/python tests/e2e/servers/build.py
	$(BIN)/python -m pytest -m servers -o faulthandler_timeout=600 tests/e2e $(PYTEST_ARGS)

# ---- set-up

# A virtual environment knows its own place: one that was moved, copied along with the folder or left behind by a
# removed Python is made anew.
ifneq ($(shell $(BIN)/python -c "print(open('$(CORE)').read())" 2>/dev/null),$(CURDIR))
$(CORE): FORCE
endif

$(CORE): requirements/core.txt | python
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) -r requirements/core.txt
	@printf %s "$(CURDIR)" > $(CORE)

$(DEV): requirements/dev.txt $(CORE)
	@echo "adding what tests and checks need to $(VENV) (once)"
	@$(INSTALL) -r requirements/dev.txt
	@touch $(DEV)

# Only to be measured, and beside the others: it asks for other versions than they do.
$(PEERS): requirements/bench.txt $(DEV)
	@$(INSTALL) --no-deps --upgrade --target $(VENV)/peers -r requirements/bench.txt
	@touch $(PEERS)

# Beside the others too: where it does not install, tests/fuzz does without.
$(FUZZER): requirements/fuzz.txt $(DEV)
	@$(INSTALL) --no-deps --upgrade --target $(VENV)/fuzzer -r requirements/fuzz.txt || \
	  echo "atheris does not install here: hypothesis looks without seeing the coverage"
	@touch $(FUZZER)

# The project itself, editable: again whenever its version, its dependencies or its command may have changed.
$(SELF): pyproject.toml $(CORE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@$(BIN)/python -m pip check >/dev/null || { $(BIN)/python -m pip check; echo "the lock is behind pyproject.toml: make lock" >&2; exit 1; }
	@touch $(SELF)

python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "no $(PYTHON) here: install Python 3.11 or newer, or name one: make PYTHON=python3.13 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "$(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1), too old or broken:" \
	    "install Python 3.11 or newer, or name one: make PYTHON=python3.13 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }

# ---- upkeep

# The locks hold for every Python from 3.11 on, Linux and macOS. Pins stay unless pyproject.toml asks for another
# version; `make lock UPGRADE=1` takes the newest of everything.
LOCK := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# Without the extra `claude`: the golden files hold the fitted model's counts, on every Python.
lock: | python  ## lock the dependencies of pyproject.toml anew (UPGRADE=1: take the newest)
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(LOCK) pyproject.toml --extra fast --group build --output-file requirements/core.txt
	$(LOCK) pyproject.toml --extra fast --extra prices --extra gateway --extra parquet --extra zstd --extra watch --group dev --constraint requirements/core.txt --output-file requirements/dev.txt
	$(LOCK) --group bench --no-deps --output-file requirements/bench.txt
	$(LOCK) --group fuzz --no-deps --output-file requirements/fuzz.txt

clean:  ## remove all that was made here
	rm -rf .venv .venv3* .venv-lock dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .fuzz
	find otel_ctx cli tests -name __pycache__ -type d -prune -exec rm -rf {} +
