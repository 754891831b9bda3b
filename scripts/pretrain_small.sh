#!/usr/bin/env bash
# Raw text -> a small TUPE-R, on a CPU; glue_small.sh and tagging_small.sh fine-tune it.  Run it again
# to resume after an interruption.
#
#   scripts/pretrain_small.sh TRAIN VALID OUT
#
# TRAIN, VALID: English text (plain, .gz, .xz, .bz2), one paragraph per line, with blank lines between
# documents.  Makes OUT/data-bin and OUT/checkpoints.  The commands must be on PATH.
#   UPDATES=5000 scripts/pretrain_small.sh ...     number of updates, default 12000
set -euo pipefail

if [ $# -ne 3 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
text=$1 valid=$2 out=$3
updates=${UPDATES:-12000}
user_dir=$(cd "$(dirname "$0")/.." && pwd)/tupe_fairseq
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
    run fairseq-train "$out/data-bin" --user-dir "$user_dir" --arch tupe_roberta_tiny --rel-pos \
        --encoder-layers 3 --encoder-embed-dim 192 --encoder-ffn-embed-dim 768 \
        --encoder-attention-heads 4 --dropout 0 --attention-dropout 0 \
        --task tupe_masked_lm --criterion masked_lm --sample-break-mode complete \
        --tokens-per-sample 128 --max-positions 128 \
        --optimizer adam --adam-betas '(0.9,0.98)' --adam-eps 1e-6 --weight-decay 0.01 \
        --clip-norm 1.0 --lr 1e-3 --lr-scheduler polynomial_decay \
        --warmup-updates $((updates / 20)) --total-num-update "$updates" --max-update "$updates" \
        --batch-size 16 --required-batch-size-multiple 1 --validate-interval-updates 2000 \
        --no-epoch-checkpoints --save-dir "$out/checkpoints" --seed 1 --cpu --num-workers 0 \
        --data-buffer-size 0 --log-format simple --log-interval 500
    echo "$updates" > "$out/pretrained"
fi
