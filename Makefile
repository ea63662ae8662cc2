# Every habit of the project, one word each. `make help` lists them.
# The first use of any target makes .venv, installs what it needs and compiles the kernels;
# later uses find the stamps and start at once.

VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# More than cores: Spark, other processes and the file system are often waited for.
WORKERS ?= 4
# In front of what starts Spark: a Java that it can use, or a word on how to get one.
WITH_JAVA := home=$$(jvm/java.sh) && JAVA_HOME=$$home

# What is compiled is kept, whatever the environment says: tests start many processes that import the same.
export PYTHONDONTWRITEBYTECODE :=

# The first interpreter that is new enough and has the headers that the kernels need.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys, sysconfig, pathlib, venv; sys.exit(sys.version_info < (3, 10) or not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' \
	2>/dev/null && echo $$p && break; done)

KERNELS := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
PROTOS := $(wildcard src/lancelet/format/proto/*.proto)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo check test cluster lint format bench soak corpus docs proto jar dist clean setup

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup  ## a pipeline on Spark in front of you: ingest, merge, delete, backfill, stream, compaction, search
	@$(WITH_JAVA) $(BIN)/python examples/demo.py $(ARGS)

check: setup lint  ## the inner loop: lint, then the quick unit tests (about a minute on two cores)
	$(BIN)/python -m pytest tests/unit -n $(WORKERS) -m "not soak and not slow" -q $(ARGS)

test: setup lint  ## lint, then every test (about 10 minutes on two cores)
	$(WITH_JAVA) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

cluster: setup  ## the Spark tests on a cluster of processes, then over Spark Connect
	$(WITH_JAVA) LANCELET_SPARK=cluster $(BIN)/python -m pytest tests/spark $(ARGS)
	$(WITH_JAVA) LANCELET_SPARK=connect $(BIN)/python -m pytest tests/spark $(ARGS)

lint: $(STAMPS)/kernels  ## ruff, mypy --strict, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMPS)/kernels  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## lancelet, pylance and Parquet side by side; OF=small_files, growth, duck, requests, writes, commits, changes, columns, compaction, cleanup, indices, vectors, texts, races, memwal, spark, spark_builds or sql
	$(WITH_JAVA) $(BIN)/python -m benchmarks$(if $(OF),.$(OF)) $(ARGS)

# A soak that found something is run again with the SEED that it printed.
ifndef SEED
SEED := $(shell od -An -N2 -tu2 /dev/urandom | tr -d ' ')
endif
DRAWS ?= 5
CELLS ?= 40

soak: setup $(STAMPS)/sanitized  ## an hour: CELLS=40 cells of each wide grid, DRAWS=5 times the examples, both from a new SEED; byte flips over AddressSanitizer
	@echo "make soak SEED=$(SEED) DRAWS=$(DRAWS) CELLS=$(CELLS)"
	$(WITH_JAVA) LANCELET_SANITIZED=build/asan LANCELET_SEED=$(SEED) LANCELET_DRAWS=$(DRAWS) LANCELET_CELLS=$(CELLS) TMPDIR=$${TMPDIR:-/tmp} \
		$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "soak or hypothesis" --hypothesis-seed=$(SEED) $(ARGS)

corpus: setup  ## an acceptance corpus for readers of Lance in build/corpus, and what pylance makes of it
	$(BIN)/python -m corpus build/corpus

docs: $(VENV)-docs/bin/python  ## the documentation as a site in build/site, links checked
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build

proto: $(VENV)-proto/bin/python  ## regenerate the protobuf modules from src/lancelet/format/proto/*.proto
	$< -m grpc_tools.protoc -I src --python_out=src --pyi_out=src $(PROTOS)

dist: setup  ## a wheel and an sdist in dist/, each installed into an empty venv and tried
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	tests/packaging/try.sh dist

jar: setup  ## compile the Spark bridge into src/lancelet/spark/jars (needs javac, Java 17 or later)
	$(BIN)/python jvm/build.py

clean:  ## remove everything that can be made again
	rm -rf $(VENV) $(VENV)-docs $(VENV)-proto build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -rf src/*.egg-info
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(STAMPS)/kernels
	@jvm/java.sh >/dev/null

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Lancelet needs Python 3.10 or newer with its C headers (python3-dev) and venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/packages: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77" "Cython>=3.1" wheel
	LANCELET_KERNELS=0 $(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[dev]"
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/kernels: $(STAMPS)/packages setup.py $(KERNELS)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# The last compiler whose modules run with every protobuf from 4.25 on: later ones refuse older and newer runtimes.
$(VENV)-proto/bin/python:
	$(PYTHON) -m venv $(VENV)-proto
	$@ -m pip install --quiet "grpcio-tools==1.62.3"

$(VENV)-docs/bin/python: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$@ -m pip install --quiet "mkdocs-material>=9.6,<10" "mkdocstrings[python]>=0.29" ruff
	@touch $@

# A whole copy of the package, kernels compiled with -fsanitize=address; the fuzz children import it from there.
$(STAMPS)/sanitized: $(STAMPS)/packages setup.py $(KERNELS) $(shell find src -name '*.py')
	rm -rf build/asan
	LANCELET_SANITIZE=1 $(BIN)/python setup.py --quiet build --build-lib build/asan --build-temp build/asan-objects
	@touch $@
