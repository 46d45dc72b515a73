# Two commands do everything on a fresh machine: `make reproduce` and `make test`. Both create and use .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --constraint constraints.txt
EXTRAS := lab,peers,frameworks,test,dev

.DEFAULT_GOAL := help
.PHONY: help environment test reproduce benchmark lint format types coverage mutation sanitize picture clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

environment: $(VENV)/.ready ## create .venv and install everything (once)

# torch first and pinned: whatever depends on it would otherwise bring the newest build with gigabytes of CUDA.
# Without build isolation, because an isolated build would download torch again and could not build the kernel.
$(VENV)/.ready: pyproject.toml setup.py constraints.txt $(wildcard src/gradagrad/csrc/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==$$(sed -n 's/^torch==//p' constraints.txt) 'setuptools>=77' wheel ninja numpy
	$(PIP) --no-build-isolation --editable '.[$(EXTRAS)]'
	touch $@

test: environment ## run all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

reproduce: environment ## the paper's experiments and the suite, quick size, ending in a report to open
	$(BIN)/gradagrad reproduce --quick

benchmark: environment ## speed and memory beside torch's optimizers and the parameter-free ones
	$(BIN)/python -m benchmarks.speed

lint: environment ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: environment ## ruff: rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: environment ## pyright: strict on the library
	$(BIN)/pyright

coverage: environment ## tests of the library with line coverage; fails below 95 %
	OMP_NUM_THREADS=1 COVERAGE_PROCESS_START=pyproject.toml $(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/lab --ignore=tests/dlrm --cov --cov-report=term-missing --cov-fail-under=95

mutation: environment ## break the rule in known ways and see that the tests notice
	$(BIN)/python tools/mutation_check.py
	$(BIN)/python tools/kernel_mutation_check.py

sanitize: environment ## run the kernel's tests under the address and undefined-behaviour sanitizers
	tools/sanitize_kernel.sh

picture: environment ## draw the README's picture anew
	$(BIN)/python -m gradagrad_lab.figures.figure2 --readme docs/pictures/abs.png

clean: ## remove what make made
	rm -rf $(VENV) build src/*.egg-info src/gradagrad/*.so gradagrad-results
