#!/usr/bin/env bash
# The whole chain on a CPU: raw text -> a small TUPE-R -> CoLA, SST-2 and STS-B, compared with the
# same model without pre-training.  It measured the table of examples/glue/README.md.  Run it again
# to resume after an interruption.
#
#   scripts/glue_small.sh TRAIN VALID GLUE_DIR OUT
#
# TRAIN, VALID: English text (plain, .gz, .xz, .bz2), one paragraph per line, with blank lines between
# documents; GLUE_DIR: the official files.  The commands must be on PATH.
#   UPDATES=5000 scripts/glue_small.sh ...     number of pre-training updates, default 12000
set -euo pipefail

if [ $# -ne 4 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
text=$1 valid=$2 glue=$3 out=$4
# spinning threads starve other processes on few cores
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_WAIT_POLICY=PASSIVE

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

"$(dirname "$0")/pretrain_small.sh" "$text" "$valid" "$out"

run tupe-prepare-glue --glue-dir "$glue" --tasks CoLA,SST-2,STS-B --pretrain-dir "$out/data-bin" \
    --output-dir "$out/glue-bin"

finetune() { # TASK LRS EPOCHS [FLAGS]: pre-trained, and concurrently from random weights
    local flags=(--data "$out/glue-bin/$1" --lrs "$2" --seeds 1,2 --epochs "$3" --cpu
        --dropout 0 --checkpoint "$out/checkpoints/checkpoint_best.pt" "${@:4}")
    run tupe-finetune "${flags[@]}" --output-dir "$out/runs-from-scratch" --no-pretraining &
    run tupe-finetune "${flags[@]}" --output-dir "$out/runs"
    wait $!
}
# learning rates far above the paper's, which models this small need
finetune CoLA 1e-4,2e-4 5
finetune STS-B 2e-4,5e-4 4
finetune SST-2 2e-4,5e-4 1 --batch-size 64

cat "$out/runs/results.md" "$out/runs-from-scratch/results.md"
