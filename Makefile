# What one types here. `make` alone lists it.
#
# Everything lives in .venv and kernel/target of this folder; the embedded Kafka is kept in the user's cache folder.
# Works with the make of macOS (3.81): no .ONESHELL, no grouped targets.

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The first Python that is new enough; PYTHON=... decides otherwise.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif

VENV := .venv
BIN := $(VENV)/bin
KERNEL_SOURCES := $(shell find kernel/src -name '*.rs') kernel/Cargo.toml kernel/Cargo.lock
# Cargo and this make share no job server: rustc would warn that it cannot reach it.
ALONE := env -u MAKEFLAGS -u MFLAGS
CARGO := $(ALONE) cargo
MANIFEST := --manifest-path kernel/Cargo.toml
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= raw fixed_crc json avro protobuf avro_schema protobuf_schema
# Of one input: seconds, and megabytes. Schemas of a few bytes can ask for far more of both.
FUZZ_LIMITS ?= -timeout=60 -rss_limit_mb=3072 -malloc_limit_mb=2048
TESTS ?= tests
WORKERS ?= 2

say = @printf '\n==> %s\n'

.PHONY: help setup broker postgres demo test checks lint lint-python lint-kernel lint-module test-kernel test-python soak old-brokers format bench fuzz fuzz-schemas wheel docs site clean

help: ## this list
	@printf 'Penstock. The first call sets everything up, which takes a few minutes.\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' Makefile | awk -F@ '{printf "%-14s %s\n", $$1, $$2}'
	@printf '\n  PYTHON=python3.12   which Python .venv is made with\n  TESTS=tests/unit    which tests "make test" runs\n'

# --- setting up -------------------------------------------------------------------------------------------------------

setup: $(VENV)/.kernel broker ## make .venv, build the kernel, fetch the embedded Kafka

# Without the kernel, so that it need not wait for it.
broker: $(VENV)/.packages
	@PYTHONPATH=src $(BIN)/python tools/fetch_broker.py

# PySpark comes as source: 450 MB that pip would squeeze into a wheel, take out again, and compile, used or not. Half of
# the time that takes is saved.
QUICK_INSTALL := --no-compile --config-settings=--build-option=--compression=stored

# Stamps: a step is done again when what it is made from has changed.
$(VENV)/.packages: pyproject.toml
	@tools/prerequisites.sh "$(PYTHON)"
	$(say) "Python packages into $(VENV) (PySpark is large: a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --disable-pip-version-check $(QUICK_INSTALL) --group dev
	@touch $@

$(VENV)/.kernel: $(VENV)/.packages $(KERNEL_SOURCES)
	@tools/prerequisites.sh "$(BIN)/python"
	$(say) "The kernel, in release mode (the first build takes about four minutes)"
	@$(ALONE) VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release
	@touch $@

postgres: ## find PostgreSQL for the tests; as root on Debian or Ubuntu, install it
	@tools/postgresql.sh --install

# --- trying it --------------------------------------------------------------------------------------------------------

demo: setup ## a million events through Kafka into PySpark, with a real broker
	@$(BIN)/penstock demo

bench: setup ## Penstock beside Spark's own Kafka source and others; writes benchmarks/results/latest.json
	@$(BIN)/python -m benchmarks $(ARGS)

# --- checking it ------------------------------------------------------------------------------------------------------

# What can be done at the same time is: pip and the last step of the kernel's build leave a core idle for minutes.
SIDE_BY_SIDE := -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

test: ## everything: linters, Rust tests, Python tests with a real broker and Spark
	@test -e $(VENV)/.packages || tools/prerequisites.sh "$(PYTHON)"
	@$(MAKE) $(SIDE_BY_SIDE) checks
	@$(MAKE) test-python

# In the order in which they are begun. The kernel takes longest, so it is begun as soon as the packages are there.
checks: $(VENV)/.packages test-kernel setup $(VENV)/spark.jsa $(VENV)/kafka.jsa lint-python lint-kernel lint-module

# Rust's tests and linters wait for each other's locks. And make gives the next free core to what it could have begun
# before: that would be a linter, not the kernel.
ifneq ($(filter checks,$(MAKECMDGOALS)),)
lint-kernel: | test-kernel
lint-module: | lint-kernel
endif

lint: lint-python lint-kernel lint-module ## ruff, mypy, cargo fmt and clippy

lint-python: $(VENV)/.packages
	$(say) "ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	$(say) "mypy"
	@$(BIN)/mypy

# The kernel without its Python module needs no Python.
lint-kernel:
	$(say) "cargo fmt"
	@cargo fmt $(MANIFEST) --check
	$(say) "cargo clippy"
	@$(CARGO) clippy --quiet $(MANIFEST) --locked --all-targets -- -D warnings

lint-module: $(VENV)/.packages
	$(say) "cargo clippy, with the Python module"
	@PYO3_PYTHON=$(CURDIR)/$(BIN)/python $(CARGO) clippy --quiet $(MANIFEST) --locked --features extension-module -- -D warnings

test-kernel:
	$(say) "cargo test"
	@$(CARGO) test $(MANIFEST) --locked

# Spark's and Kafka's classes, ready to be used by the many Java machines that the tests start.
$(VENV)/spark.jsa: $(VENV)/.packages
	@PYTHONPATH=tests $(BIN)/python -m support.spark_jvm

$(VENV)/kafka.jsa: $(VENV)/.packages | broker
	@PYTHONPATH=src:tests $(BIN)/python -m support.kafka_jvm

# Tests that need PostgreSQL fail without it, and say how to get it. Others do not.
test-python: setup $(VENV)/spark.jsa $(VENV)/kafka.jsa
	@tools/postgresql.sh --install >/dev/null || true
	$(say) "pytest, $(WORKERS) workers"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS) $(TESTS)

# PENSTOCK_SOAK_SECONDS=60 shortens the consumer's part, which takes ten minutes.
soak: setup ## drivers and workers killed hundreds of times, a group that never rests: each record once; 30 minutes
	@$(BIN)/python -m pytest -m soak -o faulthandler_timeout=0 tests/chaos

old-brokers: setup ## the essentials on Kafka 3.3, 3.9 and 4.0; fetches 130 MB the first time
	@$(BIN)/python -m pytest -m old_brokers tests/integration/test_old_brokers.py

format: setup ## put all code into its one format
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format
	@cargo fmt $(MANIFEST)

fuzz: ## throw random bytes at the kernel, FUZZ_SECONDS=60 per target (needs rustup; uses nightly)
	@cargo fuzz --version >/dev/null 2>&1 || { printf '==> cargo-fuzz, once\n'; cargo install --locked cargo-fuzz; }
	@rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
	@for target in $(FUZZ_TARGETS); do \
	    printf '\n==> fuzzing %s for %s s\n' $$target $(FUZZ_SECONDS); \
	    (cd kernel && cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) $(FUZZ_LIMITS)) || exit 1; done
	@$(MAKE) fuzz-schemas

fuzz-schemas: setup ## the same for the schemas that are read in Python: JSON Schema, DDL, references, inference
	@PYTHONPATH=src:tests $(BIN)/python -m hostile.fuzz_schemas --seconds $(FUZZ_SECONDS)

# --- shipping it ------------------------------------------------------------------------------------------------------

wheel: setup ## a wheel for this platform, for every Python from 3.11 on, into dist/
	@$(BIN)/maturin build --release --locked --out dist

docs: setup ## write generated tables and figures: options, metrics, benchmark results
	@$(BIN)/python -m tools.docs

# Without the theme's notice that it ends in May 2027, which is not a warning about the build. No --quiet: MkDocs does
# not count warnings then, and --strict has no effect.
site: $(VENV)/.docs ## build the documentation site into site/, strictly: a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.docs: $(VENV)/.packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

clean: ## remove all that was made here; the embedded Kafka stays in the user's cache folder
	@rm -rf $(VENV) dist site kernel/target spark-warehouse src/penstock/_kernel*.so
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
