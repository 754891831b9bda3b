#!/usr/bin/env bash
# The test suite on every line of fairseq and Python, and whether checkpoints that are written on one
# line give equal outputs, and train on equally, on each other.
#
#   scripts/matrix.sh OUT                             everything
#   scripts/matrix.sh OUT --no-tests --only official-3.8,main-3.11  see --help
#
# Environments are made in OUT and kept: some four gigabytes each, twice as much where the index has
# only a torch with CUDA (without a GPU: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu).
# An interpreter is the variable PYTHON38, PYTHON311, ..., or python3.8, ... on PATH, or pyenv's.
set -euo pipefail

exec python3 "$(dirname "$0")/matrix/run_matrix.py" "$@"
