#!/usr/bin/env bash
# Lint and tests of the wheel on three Pythons, each in its own environment under .venv-test/:
#
#   Python 3.12   fairseq's main branch, torch 2.13   lint, types, the whole suite but the quickstart
#   Python 3.10   the official 0.12.2, torch 2.10     tests/core, tests/checkpoint, tests/fairseq
#   Python 3.13   fairseq built from source           tests/core, and the quickstart
#
# The last two leave out Triton, and the tests of tests/fairseq that do not depend on its version.
#
#   scripts/test.sh                        all three
#   scripts/test.sh tests/core -k rope     only the first, on the clone, without lint; the
#                                          arguments go to pytest
#   PYTHON=python3.11 scripts/test.sh      the first one with another Python
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1 # two processes with several threads each slow each other down
# compile modules when they are imported, which are far fewer than pip would compile
export PIP_COMPILE=0 PYTHONDONTWRITEBYTECODE=
dist=.venv-test/dist status=0
quickstart=tests/readme/test_examples.py::test_quickstart_and_a_second_run_that_skips_what_is_finished

run_tests() { # VENV ARGUMENT...
    local venv=$1 && shift
    echo "== tests: $("$venv/bin/python" -V)" $("$venv/bin/pip" list 2>/dev/null | grep -E '^(fairseq|fairseq-fixed|ve-fairseq|torch) ')
    "$venv/bin/pytest" --numprocesses 2 --dist loadfile -rs "$@" || status=1
}

version=3.12
if [ "${PYTHON:-}" ]; then version=; fi
python=$(scripts/find_python.sh $version)
main=.venv-test/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ $# -gt 0 ]; then
    scripts/setup_venv.sh "$python" "$main" dev
    run_tests "$main" "$@" && exit $status
fi

echo "== source package, and the wheel from it"
rm -rf "$dist" build/lib/tupe_fairseq
"$python" -m venv .venv-test/build
.venv-test/build/bin/pip install --quiet build twine "setuptools>=77"
.venv-test/build/bin/python -m build --no-isolation --outdir "$dist" . | tail -n 1
.venv-test/build/bin/twine check --strict "$dist"/*
wheel=$(ls "$dist"/*.whl)

# make the other environments in the background, while the first is made and tested
python310=$(PYTHON= scripts/find_python.sh 3.10) || echo "!! NOT TESTED: the official fairseq"
python313=$(PYTHON= scripts/find_python.sh 3.13) || echo "!! NOT TESTED: fairseq built for Python 3.13"
(
    if [ "$python310" ]; then scripts/setup_venv.sh "$python310" .venv-test/3.10 fairseq,data,plot,test "$wheel"; fi
    if [ "$python313" ]; then scripts/setup_venv.sh "$python313" .venv-test/3.13 fairseq,data,plot,test "$wheel"; fi
) &
scripts/setup_venv.sh "$python" "$main" dev "$wheel"
echo "== lint"
"$main/bin/ruff" check --output-format concise . || status=1
"$main/bin/ruff" format --check . || status=1
"$main/bin/mypy" || status=1
run_tests "$main" --deselect "$quickstart"
wait $! || status=1
core=(tests/core -k "not triton")
fairseq=(tests/fairseq --ignore tests/fairseq/test_refusals.py --ignore tests/fairseq/test_documents.py)
# side by side, because the quickstart is one long test
(
    if [ "$python310" ]; then run_tests .venv-test/3.10 "${core[@]}" tests/checkpoint "${fairseq[@]}"; fi
    exit $status
) >"$dist/3.10.log" 2>&1 &
if [ "$python313" ]; then run_tests .venv-test/3.13 "$quickstart" "${core[@]}"; fi
wait $! || status=1
cat "$dist/3.10.log"
exit $status
