#!/usr/bin/env bash
# The whole chain on a CPU: raw text -> a small TUPE-R -> CoLA, SST-2 and STS-B, or tagging (which small
# word has been dropped before a word?), compared with the same model without pre-training.  It measured
# the tables of examples/glue and examples/tasks.  Run it again to resume after an interruption.
#
#   scripts/small.sh glue TRAIN VALID OUT GLUE_DIR
#   scripts/small.sh tagging TRAIN VALID OUT
#
# TRAIN, VALID: English text (plain, .gz, .xz, .bz2), one paragraph per line, with blank lines between
# documents; GLUE_DIR: the official files.  Both kinds share OUT/data-bin and OUT/checkpoints.  The
# commands must be on PATH.
#   UPDATES=5000 scripts/small.sh ...     number of pre-training updates, default 12000
set -euo pipefail

if [ "${1:-}/$#" != glue/5 ] && [ "${1:-}/$#" != tagging/4 ]; then
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
kind=$1 text=$2 valid=$3 out=$4 glue=${5:-}
updates=${UPDATES:-12000}
repo=$(cd "$(dirname "$0")/.." && pwd)
# spinning threads starve other processes on few cores
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_WAIT_POLICY=PASSIVE CUDA_VISIBLE_DEVICES=

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

run tupe-prepare-pretrain --input "$text" --valid-input "$valid" --output-dir "$out/data-bin" \
    --vocab-size 4096 --lowercase --tokens-per-sample 128

# no dropout: a model this small does not overfit this corpus; and one that was pre-trained without
# dropout does not tolerate it in fine-tuning (CoLA 9 with, 13 without)
if [ -e "$out/pretrained" ] && [ "$(cat "$out/pretrained")" != "$updates" ]; then
    echo "$out was pre-trained with UPDATES='$(cat "$out/pretrained")', not $updates; give another folder" >&2
    exit 2
fi
if [ ! -e "$out/pretrained" ]; then
    run fairseq-train "$out/data-bin" --user-dir "$repo/tupe_fairseq" --arch tupe_roberta_tiny --rel-pos \
        --encoder-layers 3 --encoder-embed-dim 192 --encoder-ffn-embed-dim 768 \
        --encoder-attention-heads 4 --dropout 0 --attention-dropout 0 \
        --task tupe_masked_lm --criterion masked_lm --sample-break-mode complete \
        --tokens-per-sample 128 --max-positions 128 \
        $(python -m tupe_fairseq.recipe) --lr 1e-3 --lr-scheduler polynomial_decay \
        --warmup-updates $((updates / 20)) --total-num-update "$updates" --max-update "$updates" \
        --batch-size 16 --required-batch-size-multiple 1 --validate-interval-updates 2000 \
        --no-epoch-checkpoints --save-dir "$out/checkpoints" --seed 1 --cpu --num-workers 0 \
        --data-buffer-size 0 --log-format simple --log-interval 500
    echo "$updates" > "$out/pretrained"
fi

finetune() { # DATA RUNS LRS EPOCHS [FLAGS]: the pre-trained model and, at the same time, random weights
    local flags=("$out/checkpoints/checkpoint_best.pt" --data "$1" --lrs "$3" --seeds 1,2 --epochs "$4"
        --cpu --dropout 0 "${@:5}")
    run tupe-finetune "${flags[@]}" --output-dir "$2-from-scratch" --no-pretraining &
    run tupe-finetune "${flags[@]}" --output-dir "$2"
    wait $!
}
# learning rates far above the paper's, which models this small need
if [ "$kind" = glue ]; then
    run tupe-prepare-glue --glue-dir "$glue" --tasks CoLA,SST-2,STS-B --vocabulary "$out/data-bin" \
        --output-dir "$out/glue-bin"
    finetune "$out/glue-bin/CoLA" "$out/runs" 1e-4,2e-4 5
    finetune "$out/glue-bin/STS-B" "$out/runs" 2e-4,5e-4 4
    finetune "$out/glue-bin/SST-2" "$out/runs" 2e-4,5e-4 1 --batch-size 64
    cat "$out/runs/results.md" "$out/runs-from-scratch/results.md"
else
    run python "$repo/examples/tasks/dropped_words.py" "$text" "$out/train.conll" --sentences 4000
    run python "$repo/examples/tasks/dropped_words.py" "$valid" "$out/valid.conll" --sentences 1000
    run tupe-prepare-task --kind tagging --train "$out/train.conll" --valid "$out/valid.conll" \
        --vocabulary "$out/data-bin" --output-dir "$out/tasks/dropped"
    finetune "$out/tasks/dropped" "$out/tagging" 5e-4,1e-3 5
    cat "$out/tagging/dropped/results.md" "$out/tagging-from-scratch/dropped/results.md"
fi
