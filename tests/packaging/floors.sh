#!/bin/sh
# Runs the smoke test and some of the unit tests with the oldest numpy, protobuf and pyarrow that pyproject.toml allows, and
# without pandas. The compiled kernels are those of the tree: PYTHON has to be the one that they were made with.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

floors=$(sed -nE 's/^    "((numpy|protobuf|pyarrow))>=([0-9.]+)",$/\1==\3.*/p' pyproject.toml)
others=$(sed -nE 's/^    "((obstore|pyroaring|sqlglot|zstandard)>=[0-9.]+)",$/\1/p' pyproject.toml)
"$python" -m venv "$work/venv"
# shellcheck disable=SC2086
"$work/venv/bin/python" -m pip install --quiet $floors $others boto3 hypothesis lance-namespace "moto[server]" pylance pytest
"$work/venv/bin/python" -m pip list | grep -E "^(numpy|protobuf|pyarrow) "
export PYTHONPATH="$PWD/src"
"$work/venv/bin/python" tests/packaging/smoke.py
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider tests/unit/test_dataset.py tests/unit/expressions tests/unit/table
