#!/usr/bin/env bash
# The data of cpu.args and gpu.args: text in 4,096 pieces, five tasks of GLUE, and BLiMP.
#
#   examples/results/prepare.sh TRAIN VALID GLUE_DIR BLIMP OUT
#
# TRAIN, VALID: English text (plain, .gz, .xz, .bz2), one paragraph per line, with blank lines between
# documents; GLUE_DIR: the official files; BLIMP: its folder, or a .tar archive of it.  These files
# expect OUT to be results-data in the current folder.  The commands must be on PATH.
set -euo pipefail

if [ $# -ne 5 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
text=$1 valid=$2 glue=$3 blimp=$4 out=$5
tasks=(CoLA MRPC RTE SST-2 STS-B)
mkdir -p "$out/glue"

tupe-prepare-pretrain --input "$text" --valid-input "$valid" --test-fraction 0 \
    --output-dir "$out/data-bin" --vocab-size 4096 --tokens-per-sample 128

for task in "${tasks[@]}"; do
    rm -rf "$out/glue/$task"
    cp -R "$glue/$task" "$out/glue/$task"
done
# SST-2 is eight times as large as any of the others; its rows are in no order
head -n 6001 "$glue/SST-2/train.tsv" > "$out/glue/SST-2/train.tsv"
tupe-prepare-glue --glue-dir "$out/glue" --tasks "$(IFS=,; echo "${tasks[*]}")" \
    --pretrain-dir "$out/data-bin" --max-positions 128 --output-dir "$out/glue-bin"

if [ -d "$blimp" ]; then
    ln -sfn "$(realpath "$blimp")" "$out/blimp"
else
    mkdir -p "$out/blimp"
    tar -xf "$blimp" -C "$out/blimp"
fi
