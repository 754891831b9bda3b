#!/usr/bin/env bash
# Trains masked language models on samples of up to 128 tokens of the English that every Python ships.
# Then prints a row for each position encoding: the loss, in bits per masked token, on the same masked
# tokens of other text, in samples of up to 128, 256 and 512 tokens.
#
#   examples/positions/longer.sh       in the root of a clone; writes longer-data
#
# About two hours of a core; from the environment: UPDATES (4000). A second run skips what is
# finished. The commands must be on PATH.
set -euo pipefail

cd "$(dirname "$0")/../.."
if [ ! -e longer-data/text ]; then
    python scripts/build_corpus.py longer-data/text.partial
    mv longer-data/text.partial longer-data/text
fi
tupe-prepare-pretrain --input longer-data/text/train.txt --valid-input longer-data/text/valid.txt \
    --vocab-size 500 --tokens-per-sample 128 --output-dir longer-data/bin
tupe-compare longer-data/bin --output-dir longer-data/compared --seeds 1 --batch-size 8 \
    --schemes "kerple; fire; pope; rope; tupe --rel-pos; none --rel-pos; alibi; learned; deberta;
        rope --rope-base 1000; rope --rope-share 0.5; rope --one-way-heads;
        tupe --rel-pos --one-way-heads" --lr 2e-3 \
    --updates "${UPDATES:-4000}" --train-flags="--dropout 0 --attention-dropout 0" --keep-checkpoints \
    --cpu --threads 1
for name in tupe_rel-pos tupe_rel-pos_one-way-heads learned; do # their tables end at 128
    tupe-extend longer-data/compared/tupe_roberta_tiny/$name-seed1/checkpoint_last.pt --overwrite \
        --data longer-data/bin --max-positions 512 --method tile --output-dir "longer-data/$name-tile"
done
python examples/arena/longer.py longer-data/bin 128,256,512 \
    longer-data/compared/*/*/checkpoint_last.pt longer-data/*-tile/model.pt
