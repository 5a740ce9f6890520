# What one does with tracedb, by name; `.ci/run` calls the same targets.
# A fresh machine needs git, make and Python 3.11 or newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Recording and its tests need PyTorch; without it those tests are skipped.
TORCH := torch==2.13.0
# Three workers on two cores, since tests wait for other processes, too; each has whole
# files, and tests/conftest.py says in which order.
PYTEST := $(BIN)/python -Im pytest -n 3 --dist loadfile --no-loadscope-reorder
# All fast tests, and the slow ones whose turn it is at this commit (tests/turns.py).
TURNS := 12
TURN ?= $(shell echo $$(( 0x0$$(git rev-parse --short=7 HEAD 2>/dev/null) % $(TURNS) + 1 )))/$(TURNS)
# Databases of small traces mostly allocate: jemalloc takes a quarter of their time away.
JEMALLOC := $(firstword $(wildcard /usr/lib/*/libjemalloc.so.2 /usr/lib64/libjemalloc.so.2))

# Say what follows, show the command as one would type it, run it.
define show
@printf '\n\033[2m# %s\033[0m\n\033[1m$$ tracedb %s\033[0m\n' '$(1)' '$(strip $(2))'
@$(BIN)/tracedb $(2)
endef

.DEFAULT_GOAL := help
.PHONY: help install spark demo test thorough check docs bench clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

demo: $(VENV)/installed ## Ingest the sample traces and show where their time goes
	@rm -f demo.duckdb
	$(call show,Two recordings on CPUs and a generated one of two GPUs,\
		ingest sample_traces --db demo.duckdb)
	$(call show,What there is to ask,info demo.duckdb)
	$(call show,How long each step takes: measured and replayed from its graph,\
		predict demo.duckdb --method replay)
	$(call show,Where the time of host threads goes in step 2 of each GPU,\
		overheads demo.duckdb --step 2)
	$(call show,What bounds that step,critical-path demo.duckdb --step 2)
	$(call show,A question by its name,ask demo.duckdb idle_share)
	@printf '\nNext: `%s ask demo.duckdb` lists the questions, `... schema` the relations.\n' \
		$(BIN)/tracedb

test: install ## Run the fast tests, and a twelfth of the slow ones (TURN=all: all tests)
	$(if $(JEMALLOC),LD_PRELOAD=$(JEMALLOC)) $(PYTEST) --turn $(TURN)

thorough: install ## Run the tests with every generated case, and those of growth
	$(if $(JEMALLOC),LD_PRELOAD=$(JEMALLOC)) $(PYTEST) --thorough

check: install ## Run linter, formatter and type checker
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: install ## Write the pages that are generated
	$(BIN)/tracedb schema --markdown > docs/schema.md

bench: install ## Measure speed
	$(BIN)/python -I benchmarks/pipeline.py
	$(BIN)/python benchmarks/ingest.py --quick
	$(BIN)/python benchmarks/critical_path.py --quick
	$(BIN)/python benchmarks/predict.py --quick
	$(BIN)/python benchmarks/kernels.py --only superbench

clean: ## Remove what was built, the environment too
	rm -rf $(VENV) build dist *.egg-info demo.duckdb* .mypy_cache .pytest_cache .ruff_cache

install: $(VENV)/developed ## Build the environment in .venv

spark: install ## Add Spark to it, so that its tests run where Java is
	@$(PIP) install -qq --editable '.[spark,connect]' \
		|| echo 'No PySpark here: the tests of Spark will be skipped.'

$(VENV)/pip:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11)' 2>/dev/null \
		|| { echo 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -qq --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/installed: pyproject.toml $(VENV)/pip
	@echo 'Installing tracedb into $(VENV) (once) ...'
	@$(PIP) install -qq --editable .
	@touch $@

$(VENV)/torch: $(VENV)/pip
	@echo 'Installing PyTorch into $(VENV) (once) ...'
	@$(PIP) install -qqq '$(TORCH)' \
		|| echo 'No $(TORCH) here: the tests of recording will be skipped.'
	@touch $@

$(VENV)/developed: pyproject.toml $(VENV)/torch
	@echo 'Installing tracedb and what its tests need into $(VENV) (once) ...'
	@$(PIP) install -qq --editable . --group dev
	@touch $@ $(VENV)/installed
