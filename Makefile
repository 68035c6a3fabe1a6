# `make` lists the targets. Each one first sets up what it needs and is quick when that is there.
#
#   make test PYTHON=python3.12    use another interpreter (3.11 or newer); .venv is made anew
#   make test ARGS="-k heartbeat"  hand arguments on: to pytest, the benchmarks or the daemon

PYTHON ?= python3
WORKERS ?= auto
ARGS ?=
UPGRADE ?=
KILL9_ROUNDS ?= 30
SIM_RUNS ?= 10000
SOAK_MINUTES ?= 10
FUZZ_SECONDS ?= 60

# Tests start make themselves, and what is meant for this one is not for theirs.
MAKEOVERRIDES :=
unexport MAKEFLAGS MFLAGS PYTHON WORKERS ARGS UPGRADE KILL9_ROUNDS SIM_RUNS SOAK_MINUTES FUZZ_SECONDS

# Without bytecode, each of the processes that tests start compiles all that it imports, which
# takes longer than most tests.  Who wants none in the tree gets it in .venv.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode
endif

# In these locales, Python before 3.13 does not start where the path of this folder is not ASCII:
# it reads in the locale's encoding where the packages are that are installed from here.
ifneq ($(filter C POSIX,$(LC_ALL)),)
export LC_ALL := C.UTF-8
endif

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv --quiet
# Without the theme's announcement of what comes after it, which is no fault of a page.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
SOURCES := public protocol assignors server client testing pipeline cli tests bench tools examples

# uv does not read pip's settings; an index that pip is told to use by environment serves uv too.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

# Stamps: each stands for a state of .venv and is older than what that state was made from
# when it has to be made again. A stamp named after the interpreter makes a change of PYTHON show.
MADE := $(VENV)/.made-with-$(subst /,-,$(PYTHON))
TOOLS := $(VENV)/.has-tools
RUN := $(VENV)/.has-run
DEV := $(VENV)/.has-dev
FUZZ := $(VENV)/.has-fuzz
# In an environment of its own, as it wants other versions.
OBJECT_STORE := $(VENV)/object-store

.PHONY: help venv run test test-all lint format bench interop pipeline object-store kill9 failover soak sim sim-mutants model fuzz compose-test docs pictures lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(DEV) ## Install all that development needs into .venv, and run nothing

run: $(RUN) ## Start the daemon on 127.0.0.1:9092 (ARGS="--topic orders:12" and so on)
	@exec $(BIN)/coterie serve $(ARGS)

# The slowest tests are listed at the end, so that one that has become slow is noticed.
PYTEST := $(BIN)/python -m pytest -ra --durations=10 -n $(WORKERS) --maxprocesses=4

test: $(DEV) ## Run the quick tests: all parts, in four minutes on two cores
	$(PYTEST) $(ARGS)

test-all: $(DEV) ## Run the quick tests and the slow ones (not those that need Kafka, or Spark for minutes)
	$(PYTEST) -m "not interop and not spark_slow and not failover" $(ARGS)

lint: $(DEV) ## Check format, rules, types, layers, sizes, the wheel and the docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(foreach folder,$(SOURCES),$(if $(wildcard $(folder)/*.py $(folder)/*/*.py),$(folder)))
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/check_wheel.py
	$(MKDOCS) --quiet build --strict

format: $(DEV) ## Format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV) ## Run the benchmarks
	@test -e bench/run.py || { echo "make bench: there are no benchmarks yet." >&2; exit 1; }
	$(BIN)/python bench/run.py $(ARGS)

interop: $(DEV) ## Run the tests that need Java and a real Kafka
	$(BIN)/python -m pytest -ra -m interop tests/interop $(ARGS)

pipeline: $(DEV) ## Run the tests of the pipeline that take Spark minutes: a cluster, kill -9, its benchmarks
	$(BIN)/python -m pytest -ra -m spark_slow tests/pipeline tests/bench $(ARGS)

object-store: $(DEV) $(OBJECT_STORE)/.made ## Run the test of the pipeline with an object store on a cluster (needs Maven, which gets 700 MB)
	$(BIN)/python -m pytest -ra -m spark_slow tests/pipeline/test_object_store.py $(ARGS)

kill9: $(DEV) ## Kill the daemon KILL9_ROUNDS times under load and see that nothing is lost
	KILL9_ROUNDS=$(KILL9_ROUNDS) $(BIN)/python -m pytest -ra -m slow tests/live/test_kill9.py $(ARGS)

failover: $(DEV) ## Kill, pause and stop coordinators at every point of a rebalance and of a commit
	$(BIN)/python -m pytest -ra -m failover tests/ha $(ARGS)

soak: $(DEV) ## Kill, pause and drain three coordinators under 200 members for SOAK_MINUTES, and check all promises
	$(BIN)/python -m tests.soak.run --minutes $(SOAK_MINUTES) $(ARGS)

sim: $(DEV) ## Simulate SIM_RUNS schedules of random faults that are drawn anew, after 1,000 that stay, then a quarter as many for three coordinators
	$(BIN)/coterie simulate --runs 1000 --profile brief $(ARGS) --seed 0
	$(BIN)/coterie simulate --runs $(SIM_RUNS) --profile brief $(ARGS)
	$(BIN)/coterie simulate --runs $$(($(SIM_RUNS) / 5)) --profile brief --nodes 3 $(ARGS)
	$(BIN)/coterie simulate --runs $$(($(SIM_RUNS) / 20)) --profile failovers --nodes 3 $(ARGS)

sim-mutants: $(DEV) ## Plant bugs, one at a time, and see how soon the simulator finds each
	$(BIN)/python tools/sim_mutants.py $(ARGS)
	$(BIN)/python tools/planted_bugs.py

model: $(DEV) ## Check the TLA+ model of shards, as it is and with planted faults (needs Java and Maven)
	$(BIN)/python tools/check_model.py $(ARGS)

fuzz: $(FUZZ) ## Fuzz the decoders for FUZZ_SECONDS, guided by coverage (Linux on x86-64)
	PYTHONPATH=. $(BIN)/python tests/fuzz/fuzz_protocol.py -max_total_time=$(FUZZ_SECONDS) $(ARGS)

compose-test: ## Run the integration tests in a container, on a coordinator in another (Docker or Podman)
	$(PYTHON) docker/run.py test

docs: $(DEV) ## Build the documentation into build/docs
	$(MKDOCS) build --strict

pictures: $(DEV) ## Make docs/pictures anew from the demo, a report on it and the console (needs Java and Chromium)
	$(BIN)/python -m tools.draw_pictures

COMPILE = $(UV) pip compile --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(UPGRADE)

lock: $(TOOLS) ## Pin the requirements again (UPGRADE=--upgrade takes the newest)
	$(COMPILE) --group tools -o requirements/tools.txt
	$(COMPILE) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra server --extra postgres --extra oauth --group build-backend -c requirements/dev.txt -o requirements/run.txt
	$(COMPILE) --group fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(COMPILE) --group object-store -o requirements/object-store.txt

clean: ## Remove everything that make made (.venv, build, caches); data stays
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(wildcard $(SOURCES)) -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit("Coterie needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(TOOLS): $(MADE) requirements/tools.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

INSTALL_TREE = $(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation -e .

# Adds to .venv rather than syncing it, so that a developer's tools survive `make run`;
# both locks hold the same versions.
$(RUN): $(TOOLS) requirements/run.txt pyproject.toml
	$(UV) pip install --python $(BIN)/python --require-hashes -r requirements/run.txt
	$(INSTALL_TREE)
	@touch $@

$(DEV): $(TOOLS) requirements/dev.txt requirements/run.txt pyproject.toml
	$(UV) pip sync --python $(BIN)/python --require-hashes requirements/dev.txt
	$(INSTALL_TREE)
	@touch $(RUN) $@

$(FUZZ): $(DEV) requirements/fuzz.txt
	$(UV) pip install --python $(BIN)/python --require-hashes -r requirements/fuzz.txt
	@touch $@

$(OBJECT_STORE)/.made: $(TOOLS) requirements/object-store.txt
	$(UV) venv --clear --python $(BIN)/python $(OBJECT_STORE)
	$(UV) pip install --python $(OBJECT_STORE)/bin/python --require-hashes -r requirements/object-store.txt
	@touch $@
