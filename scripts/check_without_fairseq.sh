#!/usr/bin/env bash
# What needs no fairseq works where there is none: `pip install .` alone, in an environment made for
# it, imports the core with torch and numpy, names the extras that commands miss, and passes
# the core's tests.
#
#   scripts/check_without_fairseq.sh [WORK]
#   scripts/check_without_fairseq.sh [WORK] --folders
#
# WORK: where the environments are made and kept, default .venv-test/without-fairseq.  PYTHON is the
# Python to use; default: python3.13, for which there is no fairseq, if it is found, else python3.
# Two minutes after torch is installed (some gigabytes from PyPI; a wheel for the CPU alone, with
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, takes seconds).
#
# --folders also exports models and uses the folders with transformers alone, which takes some ten
# minutes (scripts/export/check_export.sh --quick; TRAINED_BY is a Python with fairseq and this
# package, default python3).  Continuous integration leaves it out.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/.venv-test/without-fairseq folders=0
for word in "$@"; do
    case $word in
        --folders) folders=1 ;;
        -*)
            sed -n '2,17s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
        *) work=$(realpath -m "$word") ;;
    esac
done
python=${PYTHON:-$(command -v python3.13 || echo python3)}
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then python=python3; fi

begin=$SECONDS
venv=$work/core
mkdir -p "$work"
if [ ! -x "$venv/bin/python" ]; then "$python" -m venv "$venv"; fi
again=() # else pip would keep an earlier call's
if [ -e "$venv/bin/tupe-plot" ]; then again=(--no-deps --force-reinstall); fi
rm -rf build
"$venv/bin/python" -m pip install --quiet --constraint scripts/constraints.txt "${again[@]}" .
rm -rf build
echo "== installed without extras in $((SECONDS - begin)) s, with $("$venv/bin/python" -V)"

begin=$SECONDS
cd "$work" # the copy that was installed, not the clone's
"$venv/bin/python" -W ignore - <<'END'
import importlib.util, sys

import torch
from tupe_fairseq import TupeConfig, TupeEncoder, __version__

for package in ("fairseq", "matplotlib", "sentencepiece", "transformers"):
    assert importlib.util.find_spec(package) is None, package
assert TupeEncoder(TupeConfig())(torch.randn(2, 9, 128)).shape == (2, 9, 128)
print(f"tupe_fairseq {__version__}, Python {sys.version.split()[0]}, torch {torch.__version__}")
END
# each command with all that it must be given
"$venv/bin/python" - >"$work/calls" <<'END'
from importlib import import_module
from tupe_fairseq.commands.start import NEEDS

for name, packages in NEEDS.items():
    if packages:  # tupe-doctor needs nothing
        words = [f"tupe-{name.replace('_', '-')}"]
        for action in import_module(f"tupe_fairseq.command_flags.{name}").get_parser()._actions:
            if action.required:
                words += [*action.option_strings[:1], action.choices[0] if action.choices else "1"]
        print(*words)
END
while read -r program words; do
    # shellcheck disable=SC2086  # words, none of which has a space
    if "$venv/bin/$program" $words >"$work/said" 2>&1; then code=0; else code=$?; fi
    if [ $code -ne 2 ] || [ "$(wc -l <"$work/said")" -ne 1 ] || ! grep -q "pip install" "$work/said"; then
        echo "$program: exit code $code, not one line with what to install:" >&2
        cat "$work/said" >&2
        exit 1
    fi
    cat "$work/said"
done <"$work/calls"
if "$venv/bin/tupe-doctor" >"$work/said" 2>&1; then code=0; else code=$?; fi
if [ $code -ne 1 ] || ! grep -q "^warning  fairseq: not installed" "$work/said"; then
    echo "tupe-doctor: exit code $code, not warnings, of which one is that fairseq is absent:" >&2
    cat "$work/said" >&2
    exit 1
fi
echo "== imports and commands: $((SECONDS - begin)) s"

begin=$SECONDS
cd "$OLDPWD"
"$venv/bin/python" -m pip install --quiet pytest pytest-xdist
OMP_NUM_THREADS=1 "$venv/bin/pytest" --core --quiet --numprocesses 2 -p no:cacheprovider \
    -k "not (interpreter or compile or 500 or 512)"
echo "== the core's tests: $((SECONDS - begin)) s"

if [ $folders -eq 1 ]; then
    PYTHON=${TRAINED_BY:-python3} scripts/export/check_export.sh "$work/folders" --quick
fi
