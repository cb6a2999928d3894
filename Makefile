# SPDX-License-Identifier: Apache-2.0
# Every target makes or updates .venv first. PYTHON=/path/to/python3.12 chooses the Python (3.11 to 3.13).
.POSIX:
.PHONY: help setup demo demo-ui test test-unit test-long breaker mutants docs lint format types contracts clean

PY = .venv/bin/python
PYTEST = $(PY) -m pytest
ARGS =
MINUTES = 10
SEED =

help:
	@echo "make demo       the whole job in one command: stream, Airflow, Spark, report"
	@echo "make demo-ui    the same Airflow, left up to look around in"
	@echo "make test       all tests (unit, contract and integration, system)"
	@echo "make test-unit  the unit tests; ARGS='-k name' narrows"
	@echo "make test-long  the cases that 'make test' leaves out"
	@echo "make breaker    hunts with random schedules for MINUTES=10; SEED=n plays one again and makes it small"
	@echo "make mutants    one line of the sources changed at a time: does a test notice? ARGS='-j 2 name'"
	@echo "make docs       the pages as a site in .cache/docs/site; what is written from the code is written anew"
	@echo "make lint       ruff      make types      mypy      make contracts  import-linter      make format"
	@echo "make setup      only the virtual environment      make clean  removes it and all that was made"

setup:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh

demo: setup
	@exec $(PY) -m scripts.demo $(ARGS)

demo-ui: setup
	@exec $(PY) -m scripts.demo --ui $(ARGS)

test: setup
	@$(PY) -m tests.support.prepare
	$(PYTEST) tests/unit -n 2 $(ARGS)
	$(PYTEST) tests/breaker tests/contract tests/integration -n 2 --dist loadfile --no-loadscope-reorder --durations=15 $(ARGS)
	$(PYTEST) tests/system -n 2 --dist loadfile --no-loadscope-reorder --durations=15 $(ARGS)

test-long: setup
	@$(PY) -m tests.support.prepare
	$(PYTEST) tests -m long -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

breaker: setup
	@$(PY) -m tests.support.prepare
	@$(PY) -m tests.breaker.hunt $(MINUTES) $(SEED)

mutants: setup
	@$(PY) -m tests.support.prepare
	@$(PY) -m tests.mutants $(ARGS)

docs: setup
	@$(PY) -m scripts.reference
	@$(PY) -m scripts.docs $(ARGS)

test-unit: setup
	$(PYTEST) tests/unit $(ARGS)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

format: setup
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

types: setup
	.venv/bin/mypy

contracts: setup
	.venv/bin/lint-imports

clean:
	rm -rf .venv .cache .shardbatch .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf build dist spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
