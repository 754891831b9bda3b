#!/usr/bin/env bash
# Language models with ten position encodings, and fairseq's own model, with two seeds, evaluated at
# one, two and four times the length that they were trained with. A finished run is skipped.
#
#   examples/decoders/lm.sh DATA OUT [NUMBER OF PROCESSES]
#
# DATA is a folder of tupe-prepare-pretrain; OUT/lm.jsonl gets a line for each model. From the
# environment: LAYERS (4), DIM (256), UPDATES (1500), SEEDS ("1 2").
set -euo pipefail
if [ $# -lt 2 ]; then sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; fi
export data=$1 out=$2 updates=${UPDATES:-1500} layers=${LAYERS:-4} dim=${DIM:-256}
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
mkdir -p "$out"

run() { # NAME SEED FLAGS...
    local name=$1 seed=$2 folder=$out/$1-$2 && shift 2
    if grep -qs "\"name\": \"$name\", \"seed\": $seed," "$out/lm.jsonl"; then return; fi
    local size="--decoder-layers $layers --decoder-embed-dim $dim"
    size="$size --decoder-ffn-embed-dim $((4 * dim))"
    fairseq-train "$data" --user-dir tupe_fairseq --task tupe_language_modeling "$@" $size \
        --decoder-attention-heads 4 --activation-fn gelu --share-decoder-input-output-embed \
        --dropout 0 --tokens-per-sample 128 --sample-break-mode none --batch-size 16 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1 --lr 1e-3 \
        --lr-scheduler polynomial_decay --warmup-updates 100 --total-num-update "$updates" \
        --max-update "$updates" --seed "$seed" --cpu --no-epoch-checkpoints --disable-validation \
        --save-dir "$folder" --log-format simple --log-interval 100 >"$folder.log" 2>&1
    local perplexities="" length
    for length in 128 256 512; do
        # a table of positions has rows for the trained length only
        local found=null overrides="{'tokens_per_sample': $length, 'max_target_positions': $length}"
        if [[ $length = 128 || ! $name =~ ^(learned|tupe) ]]; then
            found=$(fairseq-eval-lm "$data" --user-dir tupe_fairseq --gen-subset valid --cpu \
                --path "$folder/checkpoint_last.pt" --batch-size 8 --tokens-per-sample "$length" \
                --required-batch-size-multiple 1 --model-overrides "$overrides" 2>&1 |
                sed -n 's/.*Perplexity: \([0-9.]*\).*/\1/p')
        fi
        perplexities="$perplexities, \"$length\": $found"
    done
    echo "{\"name\": \"$name\", \"seed\": $seed, \"updates\": $updates$perplexities}" >>"$out/lm.jsonl"
    rm -r "$folder"
}
export -f run

# post-LN layers, as in fairseq's model: they learn faster here than pre-LN layers
tupe="--arch tupe_transformer_lm --position-encoding"
for seed in ${SEEDS:-1 2}; do
    cat <<END
run fairseq $seed --arch transformer_lm
run sinusoidal $seed $tupe sinusoidal
run learned $seed $tupe learned
run t5 $seed $tupe none --rel-pos
run alibi $seed $tupe alibi
run fire $seed $tupe fire
run kerple $seed $tupe kerple
run rope $seed $tupe rope
run pope $seed $tupe pope
run tupe $seed $tupe tupe
run tupe-rel $seed $tupe tupe --rel-pos
END
done | xargs -P "${3:-1}" -I{} bash -euo pipefail -c "{}"
