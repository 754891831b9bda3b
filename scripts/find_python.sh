#!/usr/bin/env bash
# Prints a Python that can have fairseq; if there is none, what to install, and exit code 1.
#
#   scripts/find_python.sh          3.12 or 3.11; else 3.10 or 3.13, for which fairseq is built here
#   scripts/find_python.sh 3.10     this version
#   PYTHON=DIR/bin/python scripts/find_python.sh
#
# Without PYTHON, python3 comes first, then pythonX.Y on PATH, in ~/.local/bin (uv) and in ~/.pyenv.
set -euo pipefail

check='
import os, shutil, sys, sysconfig
version = "%d.%d" % sys.version_info[:2]
name = f"  {os.path.realpath(sys.executable)} (Python {version})"
if version not in sys.argv[1:]:
    sys.exit(1)
try:  # what a Python from source, or of Debian, may lack
    import bz2, ctypes, ensurepip, lzma, ssl, venv, zlib
except ImportError as error:
    sys.exit(f"{name} lacks the module {error.name}: apt-get install python{version}-venv")
if version in ("3.10", "3.13"):
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not shutil.which(os.environ.get("CXX", "g++").split()[0]):
        sys.exit(f"{name} needs a C++ compiler to build fairseq: apt-get install g++")
    if not os.path.exists(header):
        sys.exit(f"{name} needs {header}: apt-get install python{version}-dev")
print(os.path.realpath(sys.executable))  # of a virtual environment its base
'
why_not=
for versions in ${1:-3.12,3.11 3.10 3.13}; do
    read -ra versions <<<"${versions//,/ }"
    candidates=(python3)
    for version in "${versions[@]}"; do
        candidates+=("python$version" ~/.local/bin/"python$version"
            "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python)
    done
    if [ "${PYTHON:-}" ]; then candidates=("$PYTHON"); fi
    for python in "${candidates[@]}"; do
        # a shim of pyenv may be there and not work
        "$python" -c "" 2>/dev/null || continue
        if said=$("$python" -c "$check" "${versions[@]}" 2>&1); then echo "$said" && exit; fi
        if [[ $said && $why_not != *"$said"* ]]; then why_not+=$said$'\n'; fi
    done
done
what="found no Python ${1:-3.10 to 3.13} that can have fairseq"
if [ "${PYTHON:-}" ]; then what="PYTHON is $PYTHON ($("$PYTHON" -V 2>&1 | tail -n 1)), which cannot have fairseq"; fi
cat >&2 <<END
find_python.sh: $what
${why_not}One of these brings Python 3.12: uv python install 3.12 (pip install uv), or pyenv install 3.12
END
exit 1
