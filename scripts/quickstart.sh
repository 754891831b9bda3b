#!/usr/bin/env bash
# From a fresh clone to a small TUPE-R that fills in masks: makes an environment, builds an English
# corpus out of Python's own documentation, prepares it, pre-trains, validates and loads the model.
# Every command is shown.  A second run skips what is finished and resumes an interrupted training.
#
#   scripts/quickstart.sh                        with the Python that find_python.sh chooses
#   PYTHON=python3.11 scripts/quickstart.sh      make the environment with this one
#   VENV=DIR scripts/quickstart.sh               use (or make) this environment, not .venv
#   QUICKSTART_DIR=DIR scripts/quickstart.sh     write to this folder, not quickstart-run
#   QUICKSTART_SMOKE=1 scripts/quickstart.sh     20 updates on part of the text: tries every step,
#                                                but learns nothing
set -euo pipefail

fail() {
    echo "quickstart.sh: $*" >&2
    exit 1
}

repo=$(cd "$(dirname "$0")/.." && pwd)
venv=$(realpath -m "${VENV:-$repo/.venv}")
run=quickstart-run # relative to the clone, so that the commands shown are short
if [ -n "${QUICKSTART_DIR:-}" ]; then run=$(realpath -m "$QUICKSTART_DIR"); fi
cd "$repo"
case $run in
    *[:,]*) fail "QUICKSTART_DIR is $run; fairseq splits lists at ':' and ',', choose a path without them" ;;
esac
updates=1200 every=200 log_every=50
few=()
if [ "${QUICKSTART_SMOKE:-0}" != 0 ]; then updates=20 every=10 log_every=5 few=(--every 4); fi
length=64 # tokens in a sample

# Threads that wait by spinning starve any other process on few cores; and a model this small
# gains nothing from many threads.
cores=$(nproc)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores < 4 ? cores : 4))}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} PYTHONIOENCODING=utf-8
trap 'echo; echo "interrupted; run again to resume"; exit 130' INT

show() { # COMMAND...: print it as a user would type it
    local word line=$'\n$'
    for word in "$@"; do
        if [[ $word == --* ]] && ((${#line} > 75)); then
            printf '%s \\\n' "$line"
            line='   '
        fi
        if [[ ! $word =~ ^[A-Za-z0-9_./=,:+-]+$ ]]; then word=${word@Q}; fi
        line+=" $word"
    done
    printf '%s\n' "$line"
}

logged() { # LOG FILTER COMMAND...: all output goes to LOG, and FILTER decides what is shown
    local log=$1 filter=$2
    shift 2
    show "$@"
    if ! "$@" 2>&1 | tee -a "$log" | "$filter"; then
        tail -n 20 "$log" | cut -c 1-400 >&2
        fail "$1 stopped with an error; the end of $log is above. Run again to resume"
    fi
}

progress() { # the important numbers in the long log lines of a training
    local line tenths left
    while IFS= read -r line; do
        if [[ $line =~ train_inner.*\ ppl=([0-9.e+]+).*\ ups=([0-9]*)\.?([0-9]?).*num_updates=([0-9]+) ]]; then
            tenths=$((10#${BASH_REMATCH[2]:-0} * 10 + 10#${BASH_REMATCH[3]:-0}))
            left=$(((updates - BASH_REMATCH[4]) * 10 / (tenths > 0 ? tenths : 1)))
            printf 'update %4d of %d   training perplexity %8s   %d:%02d left\n' \
                "${BASH_REMATCH[4]}" "$updates" "${BASH_REMATCH[1]}" $((left / 60)) $((left % 60))
        elif [[ $line =~ (num.\ (shared\ )?model\ params:\ |Loaded\ checkpoint\ ).* ]]; then
            printf '%s\n' "${BASH_REMATCH[0]}"
        fi
    done
}

perplexity() {
    grep --line-buffered -oE 'loss [0-9.]+ \| ppl [0-9.]+' || true
}

# ---- environment

has_everything() { # importable from any folder (-I: not only from the clone)
    [ -x "$venv/bin/fairseq-train" ] && "$venv/bin/python" -I -c 'import sentencepiece, tupe_fairseq' 2>/dev/null
}

begin=$SECONDS
# VENV, or a .venv that setup_venv.sh has not made, is used as it is
if { [ -z "${VENV:-}" ] && [ -e "$venv/.installed" ]; } || ! has_everything; then
    if [ -n "${PYTHON:-}" ]; then
        python=$(scripts/find_python.sh)
    else # that of an existing environment, if it is suitable
        python=$(PYTHON=$venv/bin/python scripts/find_python.sh 2>/dev/null) || python=$(scripts/find_python.sh)
    fi
    scripts/setup_venv.sh "$python" "$venv"
fi
export PATH="$venv/bin:$PATH"
installed=$SECONDS

if [ -n "$(ls -A "$run" 2>/dev/null)" ] && [ "$(cat "$run/updates" 2>/dev/null)" != $updates ]; then
    fail "QUICKSTART_DIR is $run, which holds other files or a run of another length; choose an empty or a new folder"
fi
mkdir -p "$run"
echo $updates >"$run/updates"
# a GPU that this torch does not support counts as none
device=$(python -c 'import torch; torch.ones(8, 8, device="cuda").mm(torch.ones(8, 8, device="cuda")).sum().item()
print(torch.cuda.get_device_name(0))' 2>/dev/null || echo cpu)
cpu=()
if [ "$device" = cpu ]; then cpu=(--cpu) && export CUDA_VISIBLE_DEVICES=; fi # --cpu fails beside a GPU
echo "the commands below run in $repo, with $venv/bin on the PATH; device: $device"

# ---- 1 to 3: text, data, training

if [ ! -e "$run/corpus" ]; then
    show python scripts/build_corpus.py "$run/corpus" "${few[@]}"
    python scripts/build_corpus.py "$run/corpus.partial" "${few[@]}"
    mv "$run/corpus.partial" "$run/corpus"
fi

prepare=(
    tupe-prepare-pretrain --input "$run/corpus/train.txt" --valid-input "$run/corpus/valid.txt"
    --vocab-size 2000 --tokens-per-sample $length --output-dir "$run/data-bin"
)
show "${prepare[@]}"
"${prepare[@]}" 2>&1 | sed '/: next\b/,$d' # it suggests a training of another size

# No dropout: a training this short does not overfit.  Adam leaves the plateau, where the model knows
# only the token frequencies, after 500 updates, muon after 300.
train=(
    fairseq-train "$run/data-bin" --user-dir tupe_fairseq --arch tupe_roberta_tiny --rel-pos
    --task tupe_masked_lm --criterion masked_lm --sample-break-mode none
    --tokens-per-sample $length --max-positions $length --batch-size 32
    --dropout 0 --attention-dropout 0
    $(python -m tupe_fairseq.recipe muon) --lr 3e-3
    --lr-scheduler polynomial_decay --warmup-updates $((updates / 20))
    --total-num-update $updates --log-format simple --log-interval $log_every --num-workers 0
    --seed 1 --data-buffer-size 0 # a thread that still reads ahead at exit can abort the process
    --required-batch-size-multiple 1 # else fairseq's main branch drops a smaller last batch
    --save-interval-updates $every --keep-interval-updates 1 --no-epoch-checkpoints
    --save-interval 1000 --validate-interval 1000 "${cpu[@]}"
)
if [ ! -e "$run/trained" ]; then
    logged "$run/train.log" progress "${train[@]}" --max-update $updates --save-dir "$run/checkpoints"
    touch "$run/trained"
fi

# ---- 4 and 5: what it has learned

if [ ! -e "$run/validate.log" ]; then
    rm -f "$run/validate.partial"
    logged "$run/validate.partial" perplexity \
        fairseq-validate "$run/data-bin" --user-dir tupe_fairseq --task tupe_masked_lm \
        --path "$run/checkpoints/checkpoint_best.pt" --batch-size 32 --num-workers 0 \
        --required-batch-size-multiple 1 --log-format simple "${cpu[@]}"
    mv "$run/validate.partial" "$run/validate.log"
fi
show python scripts/quickstart_table.py "$run"
python scripts/quickstart_table.py "$run"
printf '\nIn this folder, before the commands above and those of README.md:\n  source %s/bin/activate\n\n' "${VENV:-.venv}"
echo "quickstart: done in $((SECONDS - installed)) s after $((installed - begin)) s of installation"
