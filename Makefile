# Two commands: `make demo` and `make test`. Each sets up a virtual environment first; a re-run finds it ready.
# PYTHON=python3.13 picks another interpreter, which gets an environment of its own.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:

PYTHON ?= python3
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
# What the build compiles, and what it generates from; pjrt_layout.h is generated, and may not be there yet.
NATIVE := $(wildcard src/tilestep/*/native/*.[ch]) src/tilestep/pjrt/native/pjrt_layout.txt scripts/generate_capi.py
# A Python newer than the oldest supported one, for what a newer JAX asks; empty if this machine has none.
PYTHON_NEWEST ?= $(shell $(PYTHON) scripts/newest_python.py)
NEWEST := $(if $(PYTHON_NEWEST),.venv-newest)
PIP_INSTALL = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# Nothing of the caller's own Python set-up may leak into the environment.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONWARNINGS VIRTUAL_ENV
unexport PIP_PREFIX PIP_REQUIREMENT PIP_ROOT PIP_TARGET PIP_USER
export PYTHONNOUSERSITE := 1

ENV_OF_TENSORFLOW := .venv-tensorflow

.PHONY: help demo test test-all test-tensorflow newest check format docs docs-links wheel release clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.ready-demo ## train a digits classifier on an emulated IPU, and show what it would have cost
	$(VENV)/bin/tilestep run examples/mnist_classifier.py

test: $(VENV)/.ready-test $(NEWEST:=/.ready-test) ## format, lint, types and tests, a part of them with the newest Python too: all that CI runs
	VENV=$(VENV) NEWEST=$(NEWEST) scripts/check

test-all: $(VENV)/.ready-test-all $(NEWEST:=/.ready-test-all) ## the same, long tests included, and all of them with both Pythons
	VENV=$(VENV) NEWEST=$(NEWEST) scripts/check --all

test-tensorflow: $(ENV_OF_TENSORFLOW)/.ready ## the tests of tilestep.tensorflow, in an environment of its own: TensorFlow takes 1.3 GB
	$(ENV_OF_TENSORFLOW)/bin/python -m pytest -q -n 2 tests/unit/tensorflow tests/behaviour/test_tensorflow.py

newest: ## raise constraints.txt to the newest versions that there are, and run the tests with them and with the newest Python
	$(or $(PYTHON_NEWEST),$(PYTHON)) scripts/prerequisites.py
	$(or $(PYTHON_NEWEST),$(PYTHON)) -m venv --clear .venv-unbound
	.venv-unbound/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-unbound/bin/python scripts/raise_bounds.py
	VENV=.venv-unbound scripts/check

check: $(VENV)/.ready-test ## format, lint, types and the unit tests of what differs from branch main, in two minutes at most
	$(VENV)/bin/python scripts/check_change.py

format: $(VENV)/.ready-test ## rewrite the sources as `make test` wants them
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

docs: $(VENV)/.ready-test ## build the documentation: one static folder, build/docs, that needs no network
	$(VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs --doctree-dir build/doctrees . build/docs
	$(VENV)/bin/python scripts/report_pictures.py --pages build/docs/reports
	@echo "open build/docs/index.html"

docs-links: $(VENV)/.ready-test ## ask the network for each page elsewhere that the documentation links to
	$(VENV)/bin/sphinx-build --quiet --builder linkcheck --conf-dir docs --doctree-dir build/doctrees . build/links

wheel: $(VENV)/.ready-test ## build dist/tilestep-*.whl
	$(VENV)/bin/python -m build --wheel .

release: wheel ## build the wheel, look into it, and tag this commit as the version that pyproject.toml names
	$(VENV)/bin/python -m pytest -q -n 0 tests/test_packaging.py
	$(VENV)/bin/python scripts/release.py

clean: ## remove environments, builds and caches
	rm -rf .venv .venv-* build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find src tests examples scripts -name '__pycache__' -prune -exec rm -rf {} +
	find src -name '*.so' -delete
	rm -f src/tilestep/pjrt/table/capi.py src/tilestep/pjrt/native/pjrt_layout.h

$(VENV)/.created:
	@$(PYTHON) scripts/prerequisites.py
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(ENV_OF_TENSORFLOW)/.ready: pyproject.toml setup.py constraints.txt $(NATIVE)
	@$(PYTHON) scripts/prerequisites.py
	$(PYTHON) -m venv $(ENV_OF_TENSORFLOW)
	$(ENV_OF_TENSORFLOW)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[tensorflow]' hypothesis pytest pytest-timeout pytest-xdist
	@touch $@

.venv-newest/.created:
	@$(PYTHON_NEWEST) scripts/prerequisites.py
	$(PYTHON_NEWEST) -m venv --clear .venv-newest
	@touch $@

# The newest Python takes the newest JAX that constraints.txt allows.
.venv-newest/.ready-%: VENV := .venv-newest

%/.ready-demo: %/.created pyproject.toml setup.py constraints.txt $(NATIVE)
	$(PIP_INSTALL) '.[examples]'
	@touch $@

%/.ready-test: %/.created pyproject.toml setup.py constraints.txt $(NATIVE)
	$(PIP_INSTALL) '.[dev]'
	@touch $@ $*/.ready-demo

%/.ready-test-all: %/.ready-test
	$(PIP_INSTALL) '.[dev,programs,torch]'
	@touch $@
