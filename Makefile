# Every command of the project. `make` alone lists them.
#
# Everything lives in .venv and kernel/target of this folder; the embedded Kafka is kept in the user's cache folder.
# Works with the make of macOS (3.81): no .ONESHELL, no grouped targets.

SHELL := /bin/bash
# Bytecode is kept. The tests start hundreds of Python processes, and without it each compiles what it imports: half of
# the time of a run. Users have it, so benchmarks must, too.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The first Python that is new enough, unless PYTHON is set.
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
FUZZ_TARGETS ?= raw fixed_crc encoder json avro protobuf avro_schema protobuf_schema
# Limits for one input: seconds, and megabytes. Schemas of a few bytes can ask for far more of both.
FUZZ_LIMITS ?= -timeout=60 -rss_limit_mb=3072 -malloc_limit_mb=2048
WORKERS ?= 3
# Tests of chaos wait for processes and time-outs: one more keeps the cores busy.
ALL_WORKERS ?= 4
TESTS ?= tests

say = @printf '\n==> %s\n'

.PHONY: help setup broker postgres kerberos demo unit test test-all ready checks lint lint-python lint-kernel \
    test-kernel test-python coverage soak old-brokers old-broker-jars format bench fuzz fuzz-schemas wheel \
    docs screenshots site clean kernel-dev kernel-quick kernel-release

help: ## this list
	@printf 'Penstock. The first call sets everything up, which takes a few minutes.\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' Makefile | awk -F@ '{printf "%-18s %s\n", $$1, $$2}'
	@printf '\n  PYTHON=python3.12   the Python that .venv is made with\n'
	@printf '  TESTS=tests/spark   the tests that "make test-python" runs\n  ARGS="-k name"      more arguments for pytest\n'

# --- setting up -------------------------------------------------------------------------------------------------------

# Two things at a time: pip and the last step of the kernel's build leave a core idle for most of a minute.
SIDE_BY_SIDE := -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

setup: ## make .venv, build the kernel (dev profile), fetch the embedded Kafka
	@$(MAKE) $(SIDE_BY_SIDE) $(VENV)/.packages $(VENV)/.built-dev
	@$(MAKE) kernel-dev broker

broker: $(VENV)/.packages
	@tools/prerequisites.sh "$(BIN)/python" java
	@PYTHONPATH=src $(BIN)/python tools/fetch_broker.py

# PySpark comes as source: 450 MB that pip would compress into a wheel, unpack again, and compile, used or not. This
# saves half of that time.
QUICK_INSTALL := --no-compile --config-settings=--build-option=--compression=stored

# The package's own dependencies too, so that brokers and Spark can start before the kernel is built.
DEPENDENCIES = $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')"

# Stamps: a step runs again when its inputs have changed.
$(VENV)/.maturin: pyproject.toml
	@tools/prerequisites.sh "$(PYTHON)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' 'maturin>=1.9,<2'
	@touch $@

$(VENV)/.packages: $(VENV)/.maturin
	$(say) "Python packages into $(VENV) (PySpark is large: a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(QUICK_INSTALL) --group dev -r <($(DEPENDENCIES))
	@touch $@

# The kernel in one of three profiles (kernel/Cargo.toml says what each is for). The build needs only maturin, so it runs
# beside pip; installing it needs the packages and takes two seconds.
MATURIN = $(ALONE) PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet

$(VENV)/.built-%: $(VENV)/.maturin $(KERNEL_SOURCES)
	$(say) "The kernel, profile $* ($(if $(filter release,$*),about four minutes,one to two minutes) the first time)"
	@rm -f $(VENV)/.kernel-*
	@$(MATURIN) --profile $* --skip-install
	@touch $@

# One of them is installed at a time.
define install_kernel
$(VENV)/.kernel-$(1): $(VENV)/.packages $(VENV)/.built-$(1)
	@rm -f $(VENV)/.kernel-*
	@$$(MATURIN) --profile $(1)
	@touch $$@
kernel-$(1): $(VENV)/.kernel-$(1)
endef
$(foreach profile,dev quick release,$(eval $(call install_kernel,$(profile))))

postgres: ## install PostgreSQL for the tests of the streamer (as root, on Debian or Ubuntu)
	@tools/postgresql.sh --install

kerberos: ## install a Kerberos KDC for the tests of logins (as root, on Debian or Ubuntu)
	@tools/kerberos.sh --install

# --- trying it --------------------------------------------------------------------------------------------------------

demo: ## a million events through Kafka into PySpark and back, with a real broker
	@test -e $(VENV)/.packages || tools/prerequisites.sh "$(PYTHON)" java
	@$(MAKE) $(SIDE_BY_SIDE) $(VENV)/.packages $(VENV)/.built-quick
	@$(MAKE) $(SIDE_BY_SIDE) kernel-quick broker
	@$(BIN)/penstock demo

bench: kernel-release broker ## Penstock beside Spark's own Kafka source and others; writes benchmarks/results/
	@rm -f $(VENV)/.bytecode && $(BIN)/python -P src/penstock/spark/pyspark_bytecode.py --remove >/dev/null
	@$(BIN)/python -m benchmarks $(ARGS)

# --- checking it ------------------------------------------------------------------------------------------------------

PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

unit: ## tests without Java, Kafka or PostgreSQL: a minute
	@$(MAKE) $(SIDE_BY_SIDE) $(VENV)/.packages $(VENV)/.built-dev
	@$(MAKE) kernel-dev
	@$(PYTEST) $(ARGS) tests/unit tests/hostile tests/golden

test: ## what CI runs: linters, Rust, unit, integration, Spark
	@test -e $(VENV)/.packages || tools/prerequisites.sh "$(PYTHON)" java
	@$(MAKE) $(SIDE_BY_SIDE) ready
	@$(MAKE) -j 2 test-python checks

test-all: ## also chaos, Spark's own source, docs, cluster and Connect, older brokers; needs PostgreSQL, Kerberos, promtool and chromium
	@tools/postgresql.sh >/dev/null
	@tools/kerberos.sh
	@command -v promtool >/dev/null || { echo "make test-all needs promtool: apt-get install prometheus"; exit 1; }
	@command -v chromium >/dev/null || { echo "make test-all needs a browser: apt-get install chromium"; exit 1; }
	@$(MAKE) $(VENV)/.kerberos $(VENV)/.browser
	@$(MAKE) old-broker-jars
	@$(MAKE) test WORKERS=$(ALL_WORKERS) ARGS="-m 'not soak' --hypothesis-profile=thorough $(ARGS)"

# What pytest needs, in the order in which it begins. The kernel takes longest, so it begins as soon as maturin is there.
ready: $(VENV)/.maturin $(VENV)/.built-dev $(VENV)/.packages kernel-dev broker $(VENV)/spark.jsa $(VENV)/kafka.jsa \
    $(VENV)/.bytecode

# One after the other beside pytest, which waits for brokers a quarter of its time. Rust's builds would also wait for
# each other's locks.
checks: lint-python test-kernel lint-kernel

ifneq ($(filter checks,$(MAKECMDGOALS)),)
test-kernel: | lint-python
lint-kernel: | test-kernel
endif

lint: lint-python lint-kernel ## ruff, mypy, cargo fmt and clippy

lint-python: $(VENV)/.packages
	$(say) "ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	$(say) "mypy"
	@$(BIN)/mypy

# With the Python module, which adds modules to the crate and takes none away.
lint-kernel: $(VENV)/.packages
	$(say) "cargo fmt"
	@cargo fmt $(MANIFEST) --check
	$(say) "cargo clippy"
	@PYO3_PYTHON=$(CURDIR)/$(BIN)/python $(CARGO) clippy --quiet $(MANIFEST) --locked --all-targets --features extension-module -- -D warnings

test-kernel:
	$(say) "cargo test"
	@$(CARGO) test --quiet $(MANIFEST) --locked

# Spark's and Kafka's classes, parsed and checked, for the many Java machines that the tests start.
$(VENV)/spark.jsa: $(VENV)/.packages
	@PYTHONPATH=tests $(BIN)/python -m support.spark_jvm

$(VENV)/kafka.jsa: $(VENV)/.packages | broker
	@PYTHONPATH=src:tests $(BIN)/python -m support.kafka_jvm

# Spark's Python processes start in a third of the time. Benchmarks take it out again: users do not have it.
$(VENV)/.bytecode: $(VENV)/.packages src/penstock/spark/pyspark_bytecode.py
	@$(BIN)/python -P src/penstock/spark/pyspark_bytecode.py >/dev/null
	@touch $@

# Not in the group of the tests: it is compiled, with what tools/kerberos.sh looks for.
$(VENV)/.kerberos: $(VENV)/.packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'gssapi>=1.8,<2'
	@touch $@

# Tests that need PostgreSQL are skipped by name where it is missing: `make postgres` installs it.
test-python: kernel-dev broker $(VENV)/spark.jsa $(VENV)/kafka.jsa $(VENV)/.bytecode
	$(say) "pytest, $(WORKERS) workers"
	@$(PYTEST) $(ARGS) $(TESTS)

coverage: ## unit tests with their coverage: a table, and coverage.xml
	@$(MAKE) unit ARGS="--cov=penstock --cov-report=term --cov-report=xml $(ARGS)"

# CONTRIBUTING.md has the variables that shorten its parts. `make soak ARGS="-k W6"` runs one of them.
soak: kernel-dev broker ## drivers, workers, brokers and writes killed hundreds of times, a group that never rests; 2 hours
	@$(BIN)/python -m pytest -m soak -s -o faulthandler_timeout=0 $(ARGS) tests/chaos

old-brokers: kernel-dev old-broker-jars ## the essentials on Kafka 2.8, 3.3, 3.9, 4.0 and 4.3; fetches 170 MB the first time
	@$(BIN)/python -m pytest -m old_brokers $(ARGS) tests/integration/test_old_brokers.py tests/spark/test_old_brokers.py

old-broker-jars: broker
	@PYTHONPATH=src:tests $(BIN)/python -m support.old_brokers

format: $(VENV)/.packages ## format all code
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

fuzz-schemas: kernel-dev ## the same for schemas that are read in Python: JSON Schema, DDL, references, inference
	@PYTHONPATH=src:tests $(BIN)/python -m hostile.fuzz_schemas --seconds $(FUZZ_SECONDS)

# --- shipping it ------------------------------------------------------------------------------------------------------

wheel: $(VENV)/.maturin ## a wheel for this platform, for every Python from 3.11 on, into dist/
	@$(ALONE) $(BIN)/maturin build --release --locked --out dist

docs: kernel-dev ## write the generated parts of README.md and docs/: options, figures, plots
	@$(BIN)/python -m tools.docs

screenshots: kernel-dev broker $(VENV)/.browser ## take the pictures of `penstock watch` and `penstock top` in docs/figures (needs chromium)
	@$(BIN)/python -m tools.screenshots

# For the tests of the page and of the notebook.
$(VENV)/.browser: $(VENV)/.packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser --group notebook
	@touch $@

$(VENV)/.docs: $(VENV)/.maturin
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

# Without the theme's notice that it ends in May 2027, which is not a warning about the build. No --quiet: MkDocs does
# not count warnings then, and --strict has no effect.
site: $(VENV)/.docs ## build the documentation site into site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean: ## remove everything that was made here; the embedded Kafka stays in the user's cache folder
	@rm -rf $(VENV) dist site kernel/target spark-warehouse src/penstock/_kernel*.so .coverage coverage.xml
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
