#!/usr/bin/env bash
# Prints the path of a Python that fairseq can be installed on. If there is none, says what to
# install and exits with 1.
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
try:  # a Python from source, or of Debian, may lack these
    import bz2, ctypes, ensurepip, lzma, ssl, venv, zlib
except ImportError as error:
    sys.exit(f"{name} lacks the module {error.name}: apt-get install python{version}-venv")
if version in ("3.10", "3.13"):
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not shutil.which(os.environ.get("CXX", "g++").split()[0]):
        sys.exit(f"{name} needs a C++ compiler to build fairseq: apt-get install g++")
    if not os.path.exists(header):
        sys.exit(f"{name} needs {header}: apt-get install python{version}-dev")
print(os.path.realpath(sys.executable))  # for a virtual environment, its base
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
        # a shim of pyenv may exist and not work
        "$python" -c "" 2>/dev/null || continue
        if output=$("$python" -c "$check" "${versions[@]}" 2>&1); then echo "$output" && exit; fi
        if [[ $output && $why_not != *"$output"* ]]; then why_not+=$output$'\n'; fi
    done
done
what="found no Python ${1:-3.10 to 3.13} that fairseq can be installed on"
if [ "${PYTHON:-}" ]; then what="fairseq cannot be installed on PYTHON=$PYTHON ($("$PYTHON" -V 2>&1 | tail -n 1))"; fi
cat >&2 <<END
find_python.sh: $what
${why_not}One of these brings Python 3.12: uv python install 3.12 (pip install uv), or pyenv install 3.12
END
exit 1
