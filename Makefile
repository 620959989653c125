# Every target sets up what it needs: a uv of its own when none is installed, then the locked environment.
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --no-sync
BENCHMARKS := protocol store broker tables client delivery ha crowd spark

.DEFAULT_GOAL := help
.PHONY: help setup check format demo test faults fuzz interop bench docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet uv

.venv/.synced: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	$(UV) sync --locked --quiet
	@touch $@

# The native core is built where Rust is found; without it, or if that fails, everything runs on Python alone.
.venv/.native: .venv/.synced $(wildcard native/Cargo.* native/pyproject.toml native/*.pyi native/src/*.rs)
	@if ! command -v cargo >/dev/null; then \
	  echo "no native core: cargo is not found, so PyroMQ runs on Python alone"; \
	elif $(UV) pip install --quiet --no-deps --reinstall ./native >.venv/native.log 2>&1; then \
	  echo "the native core is built"; \
	else \
	  echo "no native core: its build failed (.venv/native.log), so PyroMQ runs on Python alone"; \
	fi
	@touch $@

setup: .venv/.native ## make the locked environment in .venv, with the native core where cargo is found

check: setup ## lint, format check and types
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

format: setup ## rewrite the code in the house format
	$(RUN) ruff check --fix-only --quiet .
	$(RUN) ruff format .

demo: setup ## produce, store and consume a stream of orders on an embedded cluster
	$(RUN) pyromq demo $(ARGS)

test: setup ## run the tests (ARGS='--long' for the extended ones)
	$(RUN) pytest -n 3 --dist loadfile $(ARGS)

faults: setup ## kill, cut off and fill up a cluster by chance (ARGS='--long' for 50 schedules, '--seeds 7' for one)
	$(RUN) python -m tests.faults.harness $(ARGS)

fuzz: setup ## feed broken bytes to servers and decoders, led by coverage (ARGS='servers --seconds 600' for one target)
	$(UV) sync --locked --quiet --group fuzz --inexact
	$(RUN) python -m tests.fuzz $(ARGS)

interop: setup ## try released clients and servers of Apache RocketMQ (needs Java 17, Maven and Go)
	$(RUN) pytest tests/interop --interop --matrix docs/compatibility.md -n 4 --no-loadscope-reorder $(ARGS)

bench: setup ## run the benchmarks, one JSON object each
	@for name in $(BENCHMARKS); do \
	  $(RUN) python -m benchmarks.$$name --json || exit 1; done

docs: setup ## build the documentation into site/; warnings are errors
	$(UV) sync --locked --quiet --group docs --inexact
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet

clean: ## remove environments and caches
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
