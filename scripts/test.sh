#!/usr/bin/env bash
# Lint and the whole test suite, on this Python and, where an interpreter for it is found, on the
# other line of fairseq too: the official 0.12.2 (Python 3.8 to 3.10) and the main branch (3.11 and
# 3.12).  Each line has an environment of its own under .venv-test/.
#
#   scripts/test.sh [arguments for pytest]
#   scripts/test.sh --thorough [arguments for pytest]
#   PYTHON=/path/to/python3.11 scripts/test.sh
#   scripts/test.sh --quick [arguments for pytest]
#   PYTHON=python3.13 scripts/test.sh --core [arguments for pytest]
#   PYTHON=python3.12 FAIRSEQ=fairseq-fixed VENV=DIR scripts/test.sh --alone [arguments for pytest]
#
# --thorough adds the heavier proofs: every case of the GPU's kernels in Triton's interpreter, the
# longest benchmarks on small cases, the largest official GLUE task.
#
# --quick is for in between: only the core (positions, attention, layers, encoder, and the authors'
# numbers by the reference implementation), on this line alone, in less than a minute.  It takes the
# environment of an earlier call and the files of the clone as they are, without installing them.
#
# --core makes an environment without fairseq and other extras, and runs the tests of what needs
# torch alone; Python 3.13, for which there is no fairseq, is tested so.
#
# --alone tests with this interpreter only, and without lint.  VENV is its environment, in place of
# .venv-test/VERSION, and FAIRSEQ the extra that brings fairseq: fairseq, or fairseq-fixed, another
# build of the main branch, which needs an environment of its own.  scripts/matrix.sh calls it for
# every line; --set-up, alone or before --core, makes the environment and tests nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# what the tests need, but for what cannot be installed on every Python
extras=${FAIRSEQ:-fairseq},data,plot,parquet,fastbpe,hf,onnx,bench,test

is_usable() { # PYTHON VERSION...: it runs, has venv and is of one of the versions
    local python=$1
    shift
    local version
    version=$("$python" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || return 1
    case " $* " in *" $version "*) return 0 ;; esac
    return 1
}

find_python() { # VERSION...: the first usable interpreter of these versions, in this order
    local version candidate
    for version in "$@"; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
            if is_usable "$candidate" "$version"; then
                echo "$candidate"
                return
            fi
        done
    done
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

lint() { # VENV
    echo "== lint"
    "$1/bin/ruff" check .
    "$1/bin/ruff" format --check .
    if [ -x "$1/bin/mypy" ]; then "$1/bin/mypy"; fi # on the line whose torch it is pinned for
}

test_with() { # PYTHON VENV ARGUMENT...: the suite in an environment made with this interpreter
    local python=$1 version venv=$2
    shift 2
    version=$(version_of "$python")
    scripts/setup_venv.sh "$python" "$venv" "$extras"
    # As a user installs it, not editable.  build/ may hold files that no longer exist in the source.
    rm -rf build
    "$venv/bin/pip" install --quiet --no-deps --force-reinstall .
    if [ $alone -eq 0 ]; then lint "$venv"; fi
    echo "== tests: Python $version, $("$venv/bin/pip" list 2>/dev/null | awk '/^(ve-)?fairseq |^fairseq[-_]fixed |^torch / {printf "%s %s  ", $1, $2}')"
    # One thread per process: on few cores, several processes with several threads each slow each
    # other down.
    OMP_NUM_THREADS=1 "$venv/bin/pytest" --numprocesses 2 --dist loadfile -rs "$@"
}

python=${PYTHON:-python3}
set_up=0 alone=0
if [ "${1:-}" = --set-up ]; then
    shift
    set_up=1
fi
if [ "${1:-}" = --core ]; then
    shift
    if ! is_usable "$python" 3.8 3.9 3.10 3.11 3.12 3.13; then
        echo "test.sh: $python is not Python 3.8 to 3.13 with venv; set PYTHON to one that is" >&2
        exit 2
    fi
    venv=${VENV:-$PWD/.venv-test/core-$(version_of "$python")}
    scripts/setup_venv.sh "$python" "$venv" test
    if [ $set_up -eq 1 ]; then exit; fi
    OMP_NUM_THREADS=1 "$venv/bin/pytest" --core --numprocesses 2 --dist loadfile -rs "$@"
    exit
fi
if is_usable "$python" 3.8 3.9 3.10; then
    other_line="the main branch (Python 3.11 or 3.12)"
    other=$(find_python 3.11 3.12)
elif is_usable "$python" 3.11 3.12; then
    other_line="the official 0.12.2 (Python 3.8, 3.9 or 3.10)"
    other=$(find_python 3.8 3.9 3.10)
else
    echo "test.sh: $python is not Python 3.8 to 3.12 with venv; set PYTHON to one that is" >&2
    exit 2
fi

venv=${VENV:-$PWD/.venv-test/$(version_of "$python")}
if [ $set_up -eq 1 ]; then
    exec scripts/setup_venv.sh "$python" "$venv" "$extras"
fi
if [ "${1:-}" = --alone ]; then
    shift
    alone=1
    test_with "$python" "$venv" "$@"
    exit
fi

# What needs torch only, but for one of the goldens; and of many sizes and kernels the cheaper ones.
quick=(
    tests/position tests/attention tests/modules tests/test_encoder.py tests/test_position_options.py
    tests/test_goldens.py
)
quick_without="interpreter or compile or 500 or 512 or (goldens and not (eager and tupe_r-))"

if [ "${1:-}" = --quick ]; then
    shift
    if [ ! -x "$venv/bin/pytest" ]; then
        scripts/setup_venv.sh "$python" "$venv" "$extras"
    fi
    PYTHONPATH=$PWD OMP_NUM_THREADS=1 "$venv/bin/pytest" -q --numprocesses 2 \
        "${quick[@]}" -k "not ($quick_without)" "$@"
    exit
fi

status=0
run() { # as test_with, in a subshell that ends at the first failing step; remembers the failure
    set +e
    (set -e && test_with "$@")
    local code=$?
    set -e
    if [ $code -ne 0 ]; then status=$code; fi
}

run "$python" "$venv" "$@"
if [ -n "$other" ]; then
    run "$other" "$PWD/.venv-test/$(version_of "$other")" "$@"
else
    echo "!!!!!!!! NOT TESTED: fairseq, $other_line: no such interpreter found !!!!!!!!"
fi
exit $status
