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
python - longer-data/bin longer-data/compared/*/*/checkpoint_last.pt longer-data/*-tile/model.pt <<'END'
import math, sys
from pathlib import Path
import torch
import torch.nn.functional as F
from fairseq.data.data_utils import load_indexed_dataset
from tupe_fairseq.checkpoint.model import Model

data, *checkpoints = sys.argv[1:]
train, valid = (list(load_indexed_dataset(f"{data}/{split}", None)) for split in ("train", "valid"))
frequency = torch.cat(train).bincount(minlength=600) + 1.0
bits_of = -(frequency / frequency.sum()).log2()
lines = [line for line in valid if len(line) < 128]
generator = torch.Generator().manual_seed(1)
masks = [(torch.rand(len(line), generator=generator) < 0.15) & (line != 2) for line in lines]
masked = torch.cat([line[mask] for line, mask in zip(lines, masks)])
print(f"{len(masked)} masked tokens; by frequency {bits_of[masked].mean():.3f}")
for path in checkpoints:
    model, row = Model.read(path, f"{data}/dict.txt"), []
    for length in (128, 256, 512):
        if model.encoder.encoding.TABLE and length > model.max_positions:
            continue
        nats, rest = 0.0, list(zip(lines, masks))
        while rest:  # as many whole lines as fit behind <s>
            ends = torch.tensor([len(line) for line, _ in rest]).cumsum(0)
            number = int((ends < length).sum())
            sample, mask = (torch.cat(x) for x in zip(*rest[:number]))
            rest, tokens, places = rest[number:], F.pad(sample, (1, 0)).long(), mask.nonzero()[:, 0] + 1
            inputs = tokens.index_fill(0, places, model.symbols.index("<mask>"))
            with torch.no_grad():
                logits = model.masked_logits(inputs[None], places[None])[0]
            nats += F.cross_entropy(logits, tokens[places], reduction="sum").item()
        row.append(f"{nats / math.log(2) / len(masked):.3f}")
    print(f"{Path(path).parent.name:20}", *row, flush=True)
END
