#!/usr/bin/env bash
# Makes a virtual environment and installs this clone into it (editable), with the tested versions.
# A second call returns at once, unless pyproject.toml or the constraints have changed since.
#
#   scripts/setup_venv.sh PYTHON VENV [EXTRAS]        EXTRAS: fairseq,data,plot (default); or others of
#                                                     pyproject.toml; without fairseq, Python 3.13 too;
#                                                     fairseq-fixed is another build of fairseq's main
#                                                     branch, instead of fairseq, for 3.11 and 3.12
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
venv=$2
extras=${3:-fairseq,data,plot}

if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); then
    echo "setup_venv.sh: $python does not run; set PYTHON to a Python 3.8 to 3.13" >&2
    exit 2
fi
case ,$extras, in
    *,fairseq,*fairseq-fixed,* | *fairseq-fixed,*,fairseq,* | *fairseq-fixed,fairseq,*)
        echo "setup_venv.sh: fairseq and fairseq-fixed are one module; name one of them in EXTRAS" >&2
        exit 2
        ;;
esac
case $version,$extras, in
    3.8,*fairseq-fixed,* | 3.9,*fairseq-fixed,* | 3.10,*fairseq-fixed,* | 3.13,*fairseq-fixed,*)
        echo "setup_venv.sh: $python is Python $version, but fairseq-fixed is for 3.11 and 3.12; set PYTHON" >&2
        exit 2
        ;;
    3.8,* | 3.9,* | 3.10,* | 3.11,* | 3.12,*) ;;
    3.13,fairseq,* | 3.13,*,fairseq,*)
        echo "setup_venv.sh: $python is Python $version, but fairseq runs on 3.8 to 3.12; set PYTHON" >&2
        exit 2
        ;;
    3.13,*) ;;
    *)
        echo "setup_venv.sh: $python is Python $version; tested are 3.8 to 3.13; set PYTHON" >&2
        exit 2
        ;;
esac

stamp=$(cat pyproject.toml scripts/constraints.txt | cksum)-$extras-$PWD
if [ "$(cat "$venv/.installed" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
echo "== installing into $venv (Python $version): takes some minutes and some gigabytes"
if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv"
fi
case $version in
    # pip 24.1 refuses the metadata of omegaconf 2.0, which fairseq 0.12.2 needs
    3.8 | 3.9 | 3.10) "$venv/bin/python" -m pip install --quiet --upgrade "pip<24.1" ;;
esac
"$venv/bin/python" -m pip install --editable ".[$extras]" --constraint scripts/constraints.txt
echo "$stamp" >"$venv/.installed"
