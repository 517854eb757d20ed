# Everything here sets itself up: Python 3.11 or later with venv and pip is all that must be there.
# What was set up is remembered by stamps in .venv, so a second call starts at once. Installed modules are compiled
# when they are first imported, not all beforehand, which would take as long as the download.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile -c constraints.txt
# Neighbours stay together, so that what a file's tests share is made once; who has nothing left to do takes some away.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# What the tests of `make lowest` need beside heedful.
LOWEST_TOOLS := beartype hatchling networkx onnxruntime pytest pytest-timeout pytest-xdist scipy seqeval sybil

.DEFAULT_GOAL := help
# What the interpreter itself may change: how classes, protocols and annotations are made, and what depends on them.
QUICK := tests/unit/inspection tests/unit/recipes tests/unit/training tests/unit/cli/test_inspect.py

.PHONY: help quickstart test quick slow everything browser pages lint types javascript docs mutants campaigns sanitize gpu
.PHONY: dist wheels audit release lowest site container

help:
	@echo 'make quickstart  train a small Transformer on made-up text, in about two minutes'
	@echo 'make test        the fast tests'
	@echo 'make browser     the tests of the pages in a browser (needs Chromium)'
	@echo 'make pages       the examples on the pages of the documentation, which are run'
	@echo 'make quick       those that tell whether another Python will do, as in make quick PYTHON=python3.13 VENV=.venv-3.13'
	@echo 'make slow        the tests that take longer than 1.5 s of processor time, or are one of many alike'
	@echo 'make everything  all of them'
	@echo 'make lint        ruff: rules and format'
	@echo 'make types       mypy, strict, on the package'
	@echo 'make javascript  tsc and eslint on the code of the pages (needs npm)'
	@echo 'make docs        the documentation, into docs/_build/html'
	@echo 'make mutants     plants known bugs, and sees whether the tests find them'
	@echo 'make campaigns   kills, full disks, damaged files, random inputs, rude clients: ARGS="--kinds kills --minutes 5 --seed 1"'
	@echo 'make sanitize    native code under sanitizers, with random shapes'
	@echo 'make gpu         each task on a GPU with CUDA'
	@echo 'make dist        the source archive and the wheel, into dist, and the wheel is tested in an environment of its own'
	@echo 'make wheels      wheels of native code for Linux (x86-64, ARM) and macOS (ARM), into dist; they need no compiler'
	@echo 'make release     all files of a release, built twice and compared, and checked without this checkout; into dist'
	@echo 'make lowest      tests with the lowest versions that are promised; KEEP=torch keeps the newest of a package'
	@echo 'make site        the documentation of this version beside that of others, into docs/_build/site'
	@echo 'make container   the image of Containerfile, which must answer (needs Podman)'
	@echo 'make audit       asks for known vulnerabilities of the versions in constraints.txt'
	@echo
	@echo 'PYTHON=python3.12 chooses the interpreter, ARGS=... is handed on to the program that runs.'

quickstart: $(VENV)/.quickstart
	@$(BIN)/heedful quickstart $(ARGS)

test: $(VENV)/.dev $(VENV)/.native
	@$(PYTEST) -m "not slow" --ignore tests/browser --ignore tests/recipes/test_pages.py $(ARGS)

browser: $(VENV)/.dev $(VENV)/.native
	@$(PYTEST) -m "not slow" tests/browser $(ARGS)

pages: $(VENV)/.dev $(VENV)/.native
	@$(PYTEST) -m "not slow" tests/recipes/test_pages.py $(ARGS)

quick: $(VENV)/.dev
	@$(PYTEST) -m "not slow" $(QUICK) $(ARGS)

slow: $(VENV)/.dev $(VENV)/.native
	@$(PYTEST) -m slow $(ARGS)

everything: $(VENV)/.dev $(VENV)/.native
	@$(PYTEST) $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev
	@$(BIN)/mypy
	@$(BIN)/mypy native/heedful_native

javascript: tests/javascript/node_modules/.package-lock.json
	@cd tests/javascript && npm run --silent types && npm run --silent lint

tests/javascript/node_modules/.package-lock.json: tests/javascript/package-lock.json
	@echo 'installing what checks JavaScript'
	@cd tests/javascript && npm ci --silent
	@touch $@

docs: $(VENV)/.docs
	@$(BIN)/sphinx-build -W --keep-going --quiet -b html docs docs/_build/html $(ARGS)
	@echo 'docs/_build/html/index.html'

mutants: $(VENV)/.dev $(VENV)/.native
	@$(BIN)/python tests/mutants.py $(ARGS)

campaigns: $(VENV)/.dev $(VENV)/.native
	@$(BIN)/python tests/run_campaigns.py $(ARGS)

sanitize: $(VENV)/.dev $(VENV)/.native
	@$(BIN)/python -m pytest -n 2 tests/unit/native/test_sanitized.py $(ARGS)

gpu: $(VENV)/.dev
	@$(PYTEST) -m gpu tests/gpu $(ARGS)

dist: $(VENV)/.dev
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist
	@$(BIN)/python .ci/wheel.py dist/heedful-*.whl

wheels: $(VENV)/.dev
	@$(INSTALL) ziglang setuptools
	@$(BIN)/python native/build_wheels.py dist

# Nothing is published. PYTHONS=3.11,3.13 chooses the versions of Python that check the files.
release: $(VENV)/.created
	@$(INSTALL) cyclonedx-bom hatchling setuptools ziglang
	@$(BIN)/python .ci/release.py dist $(if $(PYTHONS),--pythons $(PYTHONS)) $(ARGS)

lowest: $(VENV)-lowest/.installed
	@OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal \
	  -m "not slow" $(if $(ARGS),$(ARGS),tests/golden tests/laws tests/unit)

$(VENV)-lowest/.installed: pyproject.toml constraints.txt constraints-lowest.txt
	@$(PYTHON) -m venv $(VENV)-lowest
	@$(PYTHON) .ci/lowest.py $(VENV)-lowest/constraints.txt $(KEEP)
	@$(VENV)-lowest/bin/python -m pip --disable-pip-version-check install -qq --no-compile \
	  -c $(VENV)-lowest/constraints.txt -e '.[all]' $(LOWEST_TOOLS)
	@touch $@

site: $(VENV)/.docs
	@$(BIN)/python docs/build_site.py docs/_build/site $(ARGS)

container:
	@.ci/container.sh $(ARGS)

# What pip-audit brings along is not needed for anything else, and not installed where it cannot be had.
audit: $(VENV)/.dev
	@$(INSTALL) -e '.[audit]' || { echo 'pip-audit cannot be installed'; \
	  echo 'vulnerabilities: not audited, pip-audit cannot be installed' >> $${NOTES:-/dev/null}; }
	@! $(BIN)/python -c 'import pip_audit' 2> /dev/null || $(BIN)/python .ci/audit.py $${NOTES:-}

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'heedful needs Python 3.11 or later; choose one by make PYTHON=...' >&2; exit 1; }
	@echo 'setting up $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Each stamp is newer than what decides about its contents.
$(VENV)/.quickstart: $(VENV)/.created pyproject.toml constraints.txt
	@echo 'installing heedful (PyTorch is large: minutes, the first time)'
	@$(INSTALL) -e '.[quickstart]'
	@touch $@

$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt
	@echo 'installing heedful and what its tests need (PyTorch is large: minutes, the first time)'
	@$(INSTALL) -e '.[dev,ct2]'
	@# tests start many processes, and each would compile PyTorch where Python may not write what it has compiled
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib/python*/site-packages/torch > /dev/null || true
	@touch $@

# Native code where a compiler is; elsewhere its tests are skipped, and say so.
$(VENV)/.native: $(VENV)/.created $(wildcard native/*.toml native/*.py native/src/* native/heedful_native/*.py)
	@if command -v $${CXX:-c++} > /dev/null; then $(INSTALL) ./native; \
	  else echo 'heedful-native is left out: there is no C++ compiler'; fi
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo 'installing what the documentation needs'
	@$(INSTALL) -e '.[docs]'
	@touch $@
