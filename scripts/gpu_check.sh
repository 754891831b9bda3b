#!/usr/bin/env bash
# What only a GPU can show: its tests, agreement of every attention implementation with eager, tiles of
# the Triton kernels, and speed.  In parts of at most eight minutes each, that can be run one by one;
# a part that is started again goes on where it was.  From a checkout, without network or installation.
#
#   scripts/gpu_check.sh OUT                       everything
#   scripts/gpu_check.sh OUT tests agreement       see --help
#   scripts/gpu_check.sh OUT agreement --device cpu --interpret    tries the script, where there is no GPU
#
#   PYTHON=DIR/bin/python ...    the environment with torch and Triton (default: python3)
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
exec "${PYTHON:-python3}" "$repo/scripts/gpu/run_parts.py" "$@"
