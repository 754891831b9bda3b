#!/usr/bin/env bash
# Tagging on a CPU: which small word has been dropped before a word?  A small TUPE-R, and the same
# model without pre-training.  It measured the table of examples/tasks/README.md.  Run it again to
# resume after an interruption.
#
#   scripts/tagging_small.sh TRAIN VALID OUT
#
# TRAIN, VALID: as for pretrain_small.sh, whose model in OUT is used if it is there.  The commands
# must be on PATH.
#   UPDATES=3000 scripts/tagging_small.sh ...     number of pre-training updates, default 12000
set -euo pipefail

if [ $# -ne 3 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
text=$1 valid=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
# spinning threads starve other processes on few cores
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_WAIT_POLICY=PASSIVE

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

"$here/pretrain_small.sh" "$text" "$valid" "$out"

dropped_words="$here/../examples/tasks/dropped_words.py"
run python "$dropped_words" "$text" "$out/train.conll" --sentences 4000
run python "$dropped_words" "$valid" "$out/valid.conll" --sentences 1000
run tupe-prepare-task --kind tagging --train "$out/train.conll" --valid "$out/valid.conll" \
    --pretrain-dir "$out/data-bin" --output-dir "$out/tasks/dropped"

# as in glue_small.sh: no dropout, and learning rates far above the paper's
flags=(--data "$out/tasks/dropped" --lrs 5e-4,1e-3 --seeds 1,2 --epochs 5 --cpu --dropout 0
    --checkpoint "$out/checkpoints/checkpoint_best.pt")
run tupe-finetune "${flags[@]}" --output-dir "$out/tagging-from-scratch" --no-pretraining &
run tupe-finetune "${flags[@]}" --output-dir "$out/tagging"
wait $!

cat "$out/tagging/dropped/results.md" "$out/tagging-from-scratch/dropped/results.md"
