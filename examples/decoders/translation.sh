#!/usr/bin/env bash
# Translation with fairseq's transformer, and with tupe_transformer: with the same positions, and with
# untied ones in the encoder, in the decoder, in both, and in both and the cross-attention; two seeds.
# A finished run is skipped.
#
#   examples/decoders/translation.sh PAIRS OUT [NUMBER OF PROCESSES]
#
# PAIRS is a tab-separated file of English and German. One row of 30 is for validation, and one for
# the test; OUT/translation.jsonl gets a line for each model. Needs sentencepiece and sacrebleu.
set -euo pipefail
if [ $# -lt 2 ]; then sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2; fi
export out=$2 data=$2/data epochs=${EPOCHS:-20} OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
mkdir -p "$out"

if [ ! -e "$data" ]; then
    python - "$1" "$out" <<'END'
import lzma, sys
import sentencepiece

pairs, out = sys.argv[1:]
with (lzma.open if pairs.endswith(".xz") else open)(pairs, "rt", encoding="utf-8") as file:
    rows = [line.rstrip("\n").split("\t") for line in file]
splits = {"test": rows[::30], "valid": rows[15::30]}
splits["train"] = [row for n, row in enumerate(rows) if n % 30 not in (0, 15)]
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(text for row in splits["train"] for text in row), vocab_size=4000,
    model_prefix=f"{out}/sentencepiece.bpe", minloglevel=2,
)
model = sentencepiece.SentencePieceProcessor(f"{out}/sentencepiece.bpe.model")
for split, rows in splits.items():
    for side, language in enumerate(("en", "de")):
        with open(f"{out}/{split}.{language}", "w", encoding="utf-8") as file:
            for row in rows:
                file.write(" ".join(model.encode(row[side], out_type=str)) + "\n")
END
    fairseq-preprocess --source-lang en --target-lang de --joined-dictionary --destdir "$data.part" \
        --trainpref "$out/train" --validpref "$out/valid" --testpref "$out/test" >/dev/null
    mv "$data.part" "$data"
fi

run() { # NAME SEED FLAGS...
    local name=$1 seed=$2 folder=$out/$1-$2 && shift 2
    if grep -qs "\"name\": \"$name\", \"seed\": $seed," "$out/translation.jsonl"; then return; fi
    local side sizes=""
    for side in encoder decoder; do
        sizes="$sizes --$side-layers 2 --$side-embed-dim 128 --$side-ffn-embed-dim 512"
        sizes="$sizes --$side-attention-heads 4"
    done
    fairseq-train "$data" --user-dir tupe_fairseq --task tupe_translation "$@" $sizes \
        --source-lang en --target-lang de --share-all-embeddings --dropout 0.1 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 2000 \
        --required-batch-size-multiple 1 --optimizer adam --adam-betas '(0.9, 0.98)' \
        --weight-decay 1e-4 --clip-norm 1 --lr 1e-3 --lr-scheduler inverse_sqrt \
        --warmup-updates 400 --max-epoch "$epochs" --seed "$seed" --cpu --no-epoch-checkpoints \
        --save-dir "$folder" --log-format simple --log-interval 100 >"$folder.log" 2>&1
    fairseq-generate "$data" --user-dir tupe_fairseq --path "$folder/checkpoint_best.pt" \
        --task tupe_translation --source-lang en --target-lang de --beam 5 --max-tokens 2000 --cpu \
        --required-batch-size-multiple 1 --remove-bpe sentencepiece >"$folder.out" 2>"$folder.err"
    python - "$folder.out" "$name" "$seed" >>"$out/translation.jsonl" <<'END'
import json, sys
from sacrebleu import corpus_bleu, corpus_chrf

with open(sys.argv[1], encoding="utf-8") as file:
    lines = [line.rstrip("\n").split("\t") for line in file if line[:2] in ("T-", "H-")]
targets = {cells[0][2:]: cells[-1] for cells in lines if cells[0][0] == "T"}
found = {cells[0][2:]: cells[-1] for cells in lines if cells[0][0] == "H"}
texts = [found[key] for key in targets], [list(targets.values())]
scores = {"bleu": corpus_bleu(*texts).score, "chrf": corpus_chrf(*texts).score}
row = {"name": sys.argv[2], "seed": int(sys.argv[3]), "sentences": len(targets)}
print(json.dumps({**row, **{name: round(x, 2) for name, x in scores.items()}}))
END
    rm -r "$folder"
}
export -f run

tupe="--arch tupe_transformer_tiny --position-encoding"
for seed in 1 2; do
    cat <<END
run fairseq $seed --arch transformer
run sinusoidal $seed $tupe sinusoidal
run encoder $seed $tupe sinusoidal --encoder-position-encoding tupe
run decoder $seed $tupe tupe --encoder-position-encoding sinusoidal
run both $seed $tupe tupe
run cross $seed $tupe tupe --cross-positions
END
done | xargs -P "${3:-1}" -I{} bash -euo pipefail -c "{}"
