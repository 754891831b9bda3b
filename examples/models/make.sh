#!/usr/bin/env bash
# Makes tupe-r-mini-10m, the model folder beside this script.  Training takes minutes on a GPU (four
# on an H100) and about fifteen hours on a CPU core, or eight if that computes in bfloat16; measuring
# takes four hours on the core.  Run it again to resume: finished parts are skipped.
#
#   examples/models/make.sh TRAIN VALID BLIMP GLUE
#
# TRAIN: the ten million words, VALID: parts of twenty other books; one paragraph per line, blank lines
# between documents (plain, .gz, .xz, .bz2).  card.md names their sources.  BLIMP: a .tar archive of
# it; GLUE: the folder with CoLA, RTE, ...  All else is written to model-data/.  The commands must be
# on PATH.
set -euo pipefail

if [ $# -ne 4 ]; then
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
for path in "$@"; do
    [ -e "$path" ] || { echo "make.sh: there is no $path" >&2 && exit 2; }
done
train=$(realpath "$1") valid=$(realpath "$2") blimp=$(realpath "$3") glue=$(realpath "$4")
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1
if python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    cpu=() speed=(--fp16 --optimizer fused_adam --num-workers 4)
else
    export CUDA_VISIBLE_DEVICES=
    cpu=(--cpu) speed=(--cpu --optimizer adam --num-workers 0)
    if grep -qs avx512_bf16 /proc/cpuinfo; then speed+=(--bf16); fi
fi
run=model-data/trained data=model-data/data-bin model=examples/models/tupe-r-mini-10m
tasks="CoLA SST-2 MRPC STS-B RTE"

tupe-prepare-pretrain --input "$train" --valid-input "$valid" --output-dir $data \
    --vocab-size 8192 --tokens-per-sample 128
tupe-prepare-glue --glue-dir "$glue" --tasks "${tasks// /,}" --vocabulary $data --output-dir model-data/glue
rm -rf model-data/blimp && mkdir model-data/blimp && tar -xf "$blimp" -C model-data/blimp
task=(--user-dir tupe_fairseq --task tupe_masked_lm --required-batch-size-multiple 1)
if [ ! -e $run/finished ]; then
    fairseq-train $data "${task[@]}" "${speed[@]}" --arch tupe_roberta_tiny --rel-pos --max-positions 128 \
        --encoder-layers 4 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4 \
        --criterion masked_lm --sample-break-mode complete --tokens-per-sample 128 \
        --skip-invalid-size-inputs-valid-test --dropout 0.1 --attention-dropout 0.1 \
        --adam-betas '(0.9,0.98)' --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 \
        --lr 1.5e-3 --lr-scheduler polynomial_decay --warmup-updates 277 --total-num-update 2770 \
        --max-update 2770 --batch-size 512 --save-interval-updates 277 --keep-interval-updates 1 \
        --no-epoch-checkpoints --log-interval 50 --log-format simple --seed 1 --save-dir $run
    touch $run/finished
fi
# round to 16 bits now, so that everything below is measured on the weights in the folder
rounded=model-data/rounded
mkdir -p $rounded
if [ ! -e $rounded/checkpoint_last.pt ]; then
    python - $run/checkpoint_last.pt $rounded/part.pt <<'END'
import sys
import torch

state = torch.load(sys.argv[1], weights_only=False)  # fairseq's, which this script wrote
for tensor in state["model"].values():
    if tensor.is_floating_point():
        tensor.copy_(tensor.half())
torch.save({**state, "last_optimizer_state": None}, sys.argv[2])
END
    mv $rounded/part.pt $rounded/checkpoint_last.pt
fi

# ---- What it has learned

measured=model-data/measured
mkdir -p $measured/blimp
if [ ! -e $measured/valid.log ]; then
    fairseq-validate $data "${task[@]}" "${cpu[@]}" --num-workers 0 --path $rounded/checkpoint_last.pt --batch-size 64 \
        --log-format simple >$measured/valid.part 2>&1
    mv $measured/valid.part $measured/valid.log
fi
for file in $(find model-data/blimp -name '*.jsonl' | sort); do
    results=$measured/blimp/$(basename "$file" .jsonl)
    [ -e "$results/results.json" ] ||
        tupe-score $rounded/checkpoint_last.pt --data $data --pairs "$file" --report "$results" "${cpu[@]}" >/dev/null
done
for name in $tasks; do
    epochs=4
    if [ $name = SST-2 ]; then epochs=2; fi # it has more rows than the others together
    tupe-finetune $rounded/checkpoint_last.pt --data model-data/glue/$name \
        --output-dir $measured/glue --lrs 2e-4 --seeds 1,2,3 --epochs $epochs "${cpu[@]}"
done

# ---- The folder

tupe-export $rounded/checkpoint_last.pt --data $data --output-dir $model --overwrite
sed -i 's/^license: unknown$/license: mit\nlanguage: en/' $model/README.md
python - $model <<'END'
import json, os, sys
from safetensors.torch import load_file, save_file

weights, tokenizer = (os.path.join(sys.argv[1], x) for x in ("model.safetensors", "tokenizer.json"))
save_file({x: y.half() for x, y in load_file(weights).items()}, weights, metadata={"format": "pt"})
with open(tokenizer, encoding="utf-8") as file:
    content = json.load(file)
with open(tokenizer, "w", encoding="utf-8") as file:
    json.dump(content, file, ensure_ascii=False)  # without indentation
END
chmod 644 $model/model.safetensors
python examples/models/card.py $measured >>$model/README.md
