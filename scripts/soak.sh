#!/usr/bin/env bash
# Kills trainings and commands with SIGKILL at random moments, gives the same command again, and
# compares what they leave in the end with a run that was never killed.
#
#   scripts/soak.sh OUT                          everything, 20 kills each
#   scripts/soak.sh OUT --only tupe-r --kills 5  see --help
#
#   PYTHON=DIR/bin/python ...    the environment with fairseq and this package (default: python3)
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
# equal numbers need equal thread counts
export OMP_NUM_THREADS=1 PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" "$repo/scripts/soak/run_soak.py" "$@"
