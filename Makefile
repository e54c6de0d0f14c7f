# make demo    end-to-end demo, on text that every machine has
# make test    run the tests
# make lint    ruff, ruff format, mypy
# make check   lint and test, with each system call of each command failing once
# make check-gpu  the checks of lm.cuda that make test skips: the pages on compiled kernels, slow tests on the simulator
#              and on a GPU in software and, with PTXSIM=directory of ptxsim.py, tests of races; no GPU needed
# make bench   compare with other tools, about an hour; writes benchmarks/results/. DATA=directory with wiki/ and ptb/,
#              PEERS=python with peers that are not in .venv, BENCH=--small for a smoke test of a few minutes
# make man     generate the man pages from the same source as --help
#
# Each target creates a virtual environment in .venv and installs its dependencies. PYTHON=python3.13 selects the Python.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DATA ?= ../shared/data
BIN := .venv/bin

.PHONY: demo test lint check check-gpu bench man clean
.DELETE_ON_ERROR:

demo: .venv/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo/run demo

test: .venv/developing
	$(BIN)/python -m pytest --numprocesses auto

lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	FAULTS=all $(BIN)/python -m pytest --numprocesses auto

check-gpu: .venv/developing
	$(BIN)/python benchmarks/gpu_kernels.py > .venv/kernels.md
	mv .venv/kernels.md benchmarks/gpu/kernels.md
	$(BIN)/python benchmarks/gpu_measure.py > .venv/measured.json
	mv .venv/measured.json neglm_cli/lm/cuda/measured.json
	$(BIN)/python benchmarks/gpu_estimate.py > benchmarks/gpu/estimate.md
	$(BIN)/python -m pytest tests/lm/cuda tests/cli/test_device.py tests/cli/test_unusable_gpu.py \
		tests/cli/test_software_gpu.py -m slow_gpu
	test -z "$(PTXSIM)" || $(BIN)/python -m tests.lm.cuda.ptx_run "$(PTXSIM)"

bench: .venv/developing
	$(BIN)/python benchmarks/page.py --data $(DATA) $(if $(PEERS),--peers $(PEERS)) $(BENCH)

man: .venv/installed
	$(BIN)/python -m neglm_cli.cli.manual man

clean:
	rm -rf .venv demo dist benchmarks/data

.venv/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "neglm needs Python 3.11 or newer; select one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv || { echo "this Python cannot create virtual environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/developing: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
