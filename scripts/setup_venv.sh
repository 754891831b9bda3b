#!/usr/bin/env bash
# Makes a virtual environment with this clone in it (editable) and the tested versions of the rest.
# A second call returns at once, unless pyproject.toml or the constraints have changed.
#
#   scripts/setup_venv.sh PYTHON VENV [EXTRAS]     EXTRAS of pyproject.toml; default: fairseq,data,plot
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2 extras=${3:-fairseq,data,plot}

if ! "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'; then
    echo "setup_venv.sh: $python is not a Python 3.10 to 3.13; set PYTHON" >&2
    exit 2
fi
stamp=$(cat pyproject.toml scripts/constraints.txt | cksum)-$extras-$PWD
if [ "$(cat "$venv/.installed" 2>/dev/null)" = "$stamp" ]; then exit; fi
echo "== installing into $venv ($("$python" -V)): takes some minutes and some gigabytes"
"$python" -m venv "$venv"
# pip 24.1 refuses the metadata of omegaconf 2.0, which the official fairseq needs
"$venv/bin/python" -m pip install --quiet "pip<24.1"
"$venv/bin/python" -m pip install --quiet --editable ".[$extras]" --constraint scripts/constraints.txt
echo "$stamp" >"$venv/.installed"
