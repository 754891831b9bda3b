#!/usr/bin/env bash
# Lint and tests, on three lines, each in an environment of its own under .venv-test/:
#
#   Python 3.11   fairseq's main branch, torch 2.13    lint, types, the whole suite
#   Python 3.10   the official 0.12.2, torch 2.10      tests/core, tests/checkpoint, tests/fairseq
#   Python 3.13   no fairseq                           tests/core
#
#   scripts/test.sh                        all three
#   scripts/test.sh tests/core -k rope     the first alone, without lint; arguments go to pytest
#   PYTHON=python3.12 scripts/test.sh      the first line on another Python
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1 # two processes with several threads each slow each other down
status=0

find_python() { # VERSION: the first that runs, on PATH or of pyenv; nothing if there is none
    local python
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$python" -c 'import ensurepip, venv' 2>/dev/null; then echo "$python" && break; fi
    done
}

install() { # PYTHON VENV EXTRAS: as a user would, so not editable
    scripts/setup_venv.sh "$@"
    rm -rf build # may hold files that no longer exist in the source
    "$2/bin/pip" install --quiet --no-deps --force-reinstall .
}

run_tests() { # VENV ARGUMENT...
    local venv=$1 && shift
    echo "== tests: $("$venv/bin/python" -V)" $("$venv/bin/pip" list 2>/dev/null | grep -E '^(fairseq|ve-fairseq|torch) ')
    "$venv/bin/pytest" --numprocesses 2 --dist loadfile -rs "$@" || status=1
}

python=${PYTHON:-$(find_python 3.11)}
main=.venv-test/$("${python:-python3.11}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
install "$python" "$main" dev
if [ $# -gt 0 ]; then run_tests "$main" "$@" && exit $status; fi

# the other environments are made while the first line's tests run
python310=$(find_python 3.10) python313=$(find_python 3.13)
(
    if [ "$python310" ]; then install "$python310" .venv-test/3.10 fairseq,data,plot,fastbpe,test; fi
    if [ "$python313" ]; then install "$python313" .venv-test/3.13 test; fi
) &
echo "== lint"
"$main/bin/ruff" check --output-format concise . || status=1
"$main/bin/ruff" format --check . || status=1
"$main/bin/mypy" || status=1
run_tests "$main"
wait $! || status=1
if [ "$python310" ]; then
    run_tests .venv-test/3.10 tests/core tests/checkpoint tests/fairseq
else
    echo "!! NOT TESTED: the official fairseq: no Python 3.10 found"
fi
if [ "$python313" ]; then
    run_tests .venv-test/3.13 tests/core
else
    echo "!! NOT TESTED: without fairseq: no Python 3.13 found"
fi
exit $status
