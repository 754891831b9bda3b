#!/usr/bin/env bash
# The study of PLAN.md, about ten hours on two cores.  Finished runs are kept and an interrupted one
# resumes: run it again to continue.
#
#   examples/results/run.sh TRAIN VALID BLIMP
#
# TRAIN, VALID: English text (plain, .gz, .xz, .bz2), one paragraph per line, with blank lines between
# documents; BLIMP: its folder, or a .tar archive of it.  The data go to results-data/, the results to
# examples/results/study/.  The commands must be on PATH.
set -euo pipefail

if [ $# -ne 3 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
for path in "$@"; do
    [ -e "$path" ] || { echo "run.sh: there is no $path" >&2 && exit 2; }
done
train=$(realpath "$1") valid=$(realpath "$2") blimp=$(realpath "$3")
cd "$(dirname "$0")/../.."
tupe-prepare-pretrain --input "$train" --valid-input "$valid" \
    --output-dir results-data/data-bin --vocab-size 4096 --character-coverage 0.9995 \
    --tokens-per-sample 128
if [ -d "$blimp" ]; then
    ln -sfn "$blimp" results-data/blimp
elif [ ! -e results-data/blimp ]; then
    mkdir results-data/blimp.part
    tar -xf "$blimp" -C results-data/blimp.part
    mv results-data/blimp.part results-data/blimp
fi
python examples/results/restore.py examples/results/study
tupe-compare @examples/results/study.args
