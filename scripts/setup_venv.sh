#!/usr/bin/env bash
# Makes a virtual environment with this package, installed as a user would, and the tested versions
# of its dependencies.  A second call returns at once, unless the package, the constraints or the
# Python have changed.
#
#   scripts/setup_venv.sh PYTHON VENV [EXTRAS] [WHEEL]
#
# EXTRAS of pyproject.toml, default: fairseq,data,plot.  WHEEL: instead of the clone.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2 extras=${3:-fairseq,data,plot} package=${4:-.}

stamp=$(find tupe_fairseq pyproject.toml scripts/constraints.txt scripts/setup_venv.sh -type f ! -name "*.pyc" -print0 |
    sort -z | xargs -0 cat | cksum)-$python-$extras-$package
if [ "$(cat "$venv/.installed" 2>/dev/null)" = "$stamp" ]; then exit; fi

base='import os, sys; print(os.path.realpath(sys.executable))'
if [ "$("$venv/bin/python" -c "$base" 2>/dev/null)" != "$("$python" -c "$base")" ]; then
    if [ -n "$(ls -A "$venv" 2>/dev/null)" ]; then
        echo "setup_venv.sh: $venv is not an environment of $python; delete it, or choose another folder" >&2
        exit 2
    fi
    "$python" -m venv "$venv"
fi
touch "$venv/.installed"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# without a GPU, install torch without CUDA, if its index can be reached
index=https://download.pytorch.org/whl/cpu indexes=() size="5 GB"
reach="import urllib.request; urllib.request.urlopen('$index/torch/', timeout=10)"
if ! nvidia-smi -L >/dev/null 2>&1 && "$python" -c "$reach" 2>/dev/null; then
    indexes=(--extra-index-url "$index") size="1.5 GB"
fi
echo "== installing into $venv with $python: takes some minutes and about $size"

install() { "$venv/bin/python" -m pip install --quiet --constraint scripts/constraints.txt "${indexes[@]}" "$@"; }
# pip 24.1 refuses the metadata of omegaconf 2.0, which the official fairseq needs
if [ "$version" = 3.10 ]; then install "pip<24.1" wheel; fi
if [[ $version = 3.13 && ,$extras, =~ ,(fairseq|dev), ]]; then
    echo "== building fairseq for Python 3.13"
    install torch numpy cython "setuptools<82"
    # the parts that we need set -O3 themselves
    CFLAGS=-O0 CXXFLAGS=-O0 install --no-build-isolation fairseq-fixed==0.12.3.1
fi
rm -rf build/lib/tupe_fairseq # may hold files that no longer exist in the source
"$venv/bin/python" -m pip uninstall --quiet --yes tupe_fairseq 2>/dev/null # pip does not replace a wheel of the same version
install "$package[$extras]"
echo "$stamp" >"$venv/.installed"
