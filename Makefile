# Needs only Python 3.11 or later, make and the package registry: every target does its own set-up
# in .venv.  `make tour` is the place to start.  Another Python has an environment of its own:
# make test PYTHON=python3.13 VENV=.venv-3.13

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= 3
PYTEST_ARGS ?=
LAB_ARGS ?=
MUTANTS_ARGS ?=
SLIDES_ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help tour c-tour python-tour dask-tour test mutants lab bench soak slides nbgrader docs lint format clean

help:
	@echo 'make tour    run notebooks/tour.ipynb through the kernel and check it'
	@echo 'make c-tour  the same for notebooks/c.ipynb, with clang (100 MB more to download)'
	@echo 'make python-tour  the same for notebooks/python.ipynb: an ordinary Python notebook'
	@echo 'make dask-tour  the same for notebooks/dask.ipynb: functions on a cluster of four processes'
	@echo 'make test    run the tests            (PYTEST_ARGS="tests/arena -x")'
	@echo 'make mutants put small faults into what matters most: do the tests notice?'
	@echo 'make lab     open JupyterLab with the kernel'
	@echo 'make bench   print the benchmark'
	@echo 'make soak    run the long benchmarks and tests'
	@echo 'make slides  the lessons as slides, in build/slides   (SLIDES_ARGS=--run: with what cells show)'
	@echo 'make nbgrader  the exercises of the course as a course of nbgrader, in build/nbgrader'
	@echo 'make docs    build the documentation into docs/_build'
	@echo 'make lint    ruff, mypy and the floors of imports'
	@echo 'make clean   remove .venv and the caches'

tour: $(VENV)/.base
	@$(PY) -m jitkernel tour

c-tour: $(VENV)/.c
	@$(PY) -m jitkernel tour notebooks/c.ipynb

python-tour: $(VENV)/.c $(VENV)/.numpy
	@$(PY) -m jitkernel tour notebooks/python.ipynb

dask-tour: $(VENV)/.dask
	@$(PY) -m jitkernel tour notebooks/dask.ipynb

test: $(VENV)/.test
	@tools/debian_packages ld:binutils gcc:gcc
	@STEP_SHOW=1 tools/step 'tests' $(PY) -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

mutants: $(VENV)/.test
	@tools/debian_packages ld:binutils gcc:gcc
	@STEP_SHOW=1 tools/step 'mutants' $(PY) -m tools.mutate $(MUTANTS_ARGS)

lab: $(VENV)/.lab
	@$(PY) -m jupyterlab --notebook-dir=notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_ARGS)

bench: $(VENV)/.bench
	@$(PY) -m benchmarks

soak: $(VENV)/.test $(VENV)/.bench
	@tools/debian_packages ld:binutils gcc:gcc
	@STEP_SHOW=1 tools/step 'slow tests' $(PY) -m pytest -n $(JOBS) --dist worksteal -m 'slow or soak' --timeout=3600 $(PYTEST_ARGS)
	@$(PY) -m benchmarks --full

slides: $(VENV)/.slides
	@tools/step 'slides of the lessons in build/slides' $(PY) tools/make_slides.py build/slides $(SLIDES_ARGS)

nbgrader: $(VENV)/.nbgrader
	@$(PY) tools/make_nbgrader.py build/nbgrader

docs: $(VENV)/.docs
	@tools/step 'documentation in docs/_build' $(PY) -m sphinx -q -W --keep-going docs docs/_build

lint: $(VENV)/.test
	@tools/step 'ruff check' $(PY) -m ruff check .
	@tools/step 'ruff format --check' $(PY) -m ruff format --check .
	@tools/step 'mypy' $(PY) -m mypy
	@tools/step 'floors' $(VENV)/bin/lint-imports --no-cache

format: $(VENV)/.test
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is as old as the install it stands for; a changed pyproject.toml installs again.
$(VENV)/.python: pyproject.toml
	@tools/step 'virtual environment in .venv' "$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.python $(wildcard kernelspec/*/* labextension/* labextension/static/*)
	@tools/step 'jitkernel and what it needs' $(PY) -m pip install -q -e .
	@tools/step 'kernel for Jupyter' $(PY) -m jitkernel install --sys-prefix
	@touch $@

$(VENV)/.test $(VENV)/.lab $(VENV)/.c $(VENV)/.numpy $(VENV)/.dask $(VENV)/.bench $(VENV)/.docs $(VENV)/.slides $(VENV)/.nbgrader: $(VENV)/.%: $(VENV)/.base
	@tools/step 'what `make $*` needs' $(PY) -m pip install -q -e '.[$*]'
	@touch $@
