#!/usr/bin/env bash
# Trains with several processes on the CPU, in every way that the documents give, and compares what
# they learn with one process of the same total batch; kills workers, and lets the runs resume.
#
#   scripts/distributed.sh OUT                      everything
#   scripts/distributed.sh OUT --only hand-2,c10d   see --help
#
#   PYTHON=DIR/bin/python ...    the environment with fairseq and this package (default: python3)
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
export OMP_NUM_THREADS=1 PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" "$repo/scripts/distributed/run_distributed.py" "$@"
