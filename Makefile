# Two commands do everything on a fresh machine: `make reproduce` and `make test`. Both create and use .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help environment test reproduce benchmark lint format types coverage mutation sanitize fuzz torchrec docs picture clean

help: ## show this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

environment: $(VENV)/.ready ## create .venv and install everything (once)

# The way to the first picture is short: what only tests need (frameworks, type checker, browsers) is not on it.
$(VENV)/.reproduce: EXTRAS := lab,peers
$(VENV)/.ready: EXTRAS := lab,peers,frameworks,test,docs,dev

# torch first and pinned: whatever depends on it would otherwise bring the newest build with gigabytes of CUDA.
# Without build isolation, because an isolated build would download torch again and could not build the kernel.
$(VENV)/.ready $(VENV)/.reproduce: pyproject.toml setup.py constraints.txt $(wildcard src/gradagrad/kernel/csrc/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==$$(sed -n 's/^torch==//p' constraints.txt) 'setuptools>=77' wheel ninja numpy
	$(PIP) --no-build-isolation --editable '.[$(EXTRAS)]'
	touch $(VENV)/.reproduce $@

test: environment ## run all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

reproduce: $(VENV)/.reproduce ## the paper's experiments, quick size, ending in a report to open
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
	OMP_NUM_THREADS=1 COVERAGE_PROCESS_START=pyproject.toml $(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/lab --cov --cov-report=term-missing --cov-fail-under=95

mutation: environment ## break the rules and the kernel in known ways and see that the tests notice
	$(BIN)/python tools/mutation_check.py

sanitize: environment ## the kernel's tests under the address, undefined-behaviour and thread sanitizers
	tools/sanitize_kernel.sh

# What the reliability page shows. CI runs the short forms.
fuzz: environment ## long runs of random settings and wrong calls of the kernel
	$(BIN)/python tools/fuzz.py --steps 1e9
	$(BIN)/python tools/fuzz_ops.py 600

# An environment of its own on top of .venv. TorchRec's dependencies would bring the CUDA build of FBGEMM, which does not
# load beside the CPU's.
REC := $(VENV)/torchrec
RECPIP := $(REC)/bin/pip install --quiet --constraint constraints.txt
$(REC)/.ready: $(VENV)/.ready
	$(BIN)/python -m venv --clear $(REC)
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
	  > $$($(REC)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/venv.pth
	$(RECPIP) --no-deps torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0
	$(RECPIP) torchmetrics==1.0.3 tensordict pyre-extensions iopath tqdm
	$(REC)/bin/python -W ignore -c "import torchrec"
	touch $@

torchrec: environment ## tests with TorchRec on two ranks; SKIPPED where its packages cannot be had
	@if $(MAKE) --silent $(REC)/.ready; then \
	  OMP_NUM_THREADS=1 $(REC)/bin/python -m pytest tests/torchrec_half -q -n 0 -W ignore; \
	else echo "SKIPPED: the tests with TorchRec, whose packages could not be installed"; fi

docs: environment ## the documentation in docs/_build/html: warnings are errors, notebooks and examples are run
	$(BIN)/python -m gradagrad_lab.report.javascript --check
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d docs/_build/doctrees -b html docs docs/_build/html
	$(BIN)/python -m sphinx --quiet --fail-on-warning -d docs/_build/doctrees -b doctest docs docs/_build/doctest

picture: environment ## draw the picture of the method page
	$(BIN)/python -m gradagrad_lab.figures.figure2 --readme docs/pictures/abs.png

clean: ## remove what make made
	rm -rf $(VENV) build dist src/*.egg-info src/gradagrad/kernel/*.so src/gradagrad/kernel/_build.json src/gradagrad/kernel/csrc/rules_generated.h gradagrad-results docs/_build

.PHONY: wheels release-check clang
RELEASE_TOOLS = $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['release'])"

wheels: environment ## build into dist: the sdist, the wheel with the kernel, the wheel for everything else
	$(PIP) $$($(RELEASE_TOOLS))
	$(BIN)/python tools/wheels.py

release-check: wheels ## install what `make wheels` built everywhere it can be tried (QUICK=1: only here)
	$(BIN)/python tools/release_check.py $(if $(QUICK),--quick)

clang: environment ## build the kernel with clang and run its tests
	tools/clang_check.sh
