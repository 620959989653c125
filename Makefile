# Every target sets up what it needs: a uv of its own when none is installed, then the locked environment.
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --no-sync
PYTEST := $(RUN) pytest -n 3 --dist loadfile
BENCHMARKS := protocol store broker processes tables client delivery ha crowd spark

.DEFAULT_GOAL := help
.PHONY: help setup check format demo test faults fuzz interop bench docs clean again

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet uv

.venv/.synced: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	$(UV) sync --locked --quiet
	@touch $@

# The native core is built where Rust is found; without it, or if that fails, everything runs on Python alone. The stamp says
# what came of it. It is made again when the core's sources change, when cargo has appeared, and when the built core is
# gone: `uv sync` by hand takes away what is not locked.
STATE := $(shell cat .venv/.native 2>/dev/null)
CARGO := $(shell command -v cargo 2>/dev/null)
MODULE := $(wildcard .venv/lib/python*/site-packages/pyromq_native/__init__.py .venv/lib/python*/site-packages/pyromq_native*.so)
AGAIN := $(or $(and $(filter built,$(STATE)),$(if $(MODULE),,gone)),$(and $(filter without-cargo,$(STATE)),$(CARGO)))

.venv/.native: .venv/.synced $(wildcard native/Cargo.* native/pyproject.toml native/*.pyi native/src/*.rs) $(if $(AGAIN),again)
	@if [ -z "$(CARGO)" ]; then \
	  echo without-cargo >$@; \
	  echo "no native core: cargo is not found, so PyroMQ runs on Python alone"; \
	elif $(UV) pip install --quiet --no-deps --reinstall ./native >.venv/native.log 2>&1; then \
	  echo built >$@; \
	  echo "the native core is built"; \
	else \
	  echo failed >$@; \
	  echo "no native core: its build failed (.venv/native.log), so PyroMQ runs on Python alone"; \
	fi

setup: .venv/.native ## make the locked environment in .venv, with the native core where cargo is found

check: setup ## lint, format check and types, of the native core too where cargo is found
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	@if cargo fmt --version >/dev/null 2>&1; then cd native && cargo fmt --check; \
	else echo "no rustfmt: the form of native/ is not checked"; fi
	@if cargo clippy --version >/dev/null 2>&1; then cd native && cargo clippy --quiet --locked -- -D warnings; \
	else echo "no clippy: native/ is not linted"; fi

format: setup ## rewrite the code in the house format
	$(RUN) ruff check --fix-only --quiet .
	$(RUN) ruff format .
	@if cargo fmt --version >/dev/null 2>&1; then cd native && cargo fmt; fi

demo: setup ## produce, store and consume a stream of orders on an embedded cluster
	$(RUN) pyromq demo $(ARGS)

# What runs a second time, on Python alone: all that touches a twin, and what kills servers that write, cuts their power or
# deceives them. Of tests that are named in ARGS, all.
TWICE := $(addprefix tests/,unit/store unit/protocol unit/proxy unit/remoting unit/broker unit/client \
  integration/broker integration/client integration/remoting hostile) \
  $(wildcard tests/faults/test_*_kill.py tests/faults/test_power_*.py tests/faults/test_store_*.py)

test: setup ## run the tests, the hot parts without the native core first (ARGS='--long' for the extended ones)
	@if $(RUN) python -c 'from pyromq.native import core; raise SystemExit(not core.on)'; then \
	  echo "the hot parts without the native core, then all tests with it" && \
	  PYROMQ_NATIVE=0 $(PYTEST) $(if $(filter tests/%,$(ARGS)),,$(TWICE)) $(ARGS); \
	else \
	  echo "there is no native core: the tests run once, on Python alone"; \
	fi
	$(PYTEST) $(ARGS)

faults: setup ## kill, cut off and fill up a cluster by chance (ARGS='--long' for 50 schedules, '--seeds 7' for one)
	$(RUN) python -m tests.faults.harness $(ARGS)

fuzz: setup ## feed broken bytes to servers and decoders, led by coverage (ARGS='servers --seconds 600' for one target)
	$(UV) sync --locked --quiet --group fuzz --inexact
	$(RUN) python -m tests.fuzz $(ARGS)

interop: setup ## try released clients and servers of Apache RocketMQ (needs Java 17, Maven, Go, Node.js and Rust)
	$(RUN) pytest tests/interop --interop --matrix docs/compatibility.md -n 4 --no-loadscope-reorder $(ARGS)

bench: setup ## run the benchmarks, one JSON object each
	@for name in $(BENCHMARKS); do \
	  $(RUN) python -m benchmarks.$$name --json || exit 1; done

docs: setup ## build the documentation into site/; warnings are errors
	$(UV) sync --locked --quiet --group docs --inexact
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet

clean: ## remove environments and caches
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site native/target
