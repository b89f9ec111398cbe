# `make demo` and `make test` need Python 3.11 and make, nothing else: they create .venv and install into it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
BENCH_INSTALLED := .venv/.bench-installed
# as a variable, the constraints hold for build environments too
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint types pytest bench clean

demo: $(INSTALLED)
	@$(BIN)/python examples/demo.py

test: lint types pytest

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(INSTALLED)
	$(BIN)/mypy

pytest: $(INSTALLED)
	$(BIN)/pytest

bench: $(BENCH_INSTALLED)
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/shuffle_quality.py

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(BENCH_INSTALLED): $(INSTALLED) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement benchmarks/requirements.txt
	@touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
