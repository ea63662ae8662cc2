#!/bin/sh
# Installs what `python -m build` left in a folder into empty venvs and runs the smoke test: the wheel where no compiler
# can be found, the sdist with one. Prints the sizes.
set -eu
dist=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}

ls -l "$dist"
"$python" -m venv "$work/wheel"
CC=/nonexistent "$work/wheel/bin/python" -m pip install --quiet --only-binary :all: "$dist"/*.whl
"$work/wheel/bin/python" "$here/smoke.py"

"$python" -m venv "$work/sdist"
"$work/sdist/bin/python" -m pip install --quiet "$dist"/*.tar.gz
"$work/sdist/bin/python" "$here/smoke.py"

# Without a compiler an sdist ends in one sentence.
if CC=/nonexistent "$work/sdist/bin/python" -m pip install --force-reinstall --no-deps "$dist"/*.tar.gz >"$work/log" 2>&1; then
    echo "an sdist was installed without a compiler" >&2
    exit 1
fi
grep -q "there is no C compiler" "$work/log"
