#!/usr/bin/env bash
# From a fresh clone to a small TUPE-R that fills in masks: makes an environment, builds an English
# corpus out of Python's own documentation, pre-trains, validates and loads the model.  Each
# command is shown.  A second run skips what is finished and resumes an interrupted training.
#
#   scripts/quickstart.sh
#   PYTHON=python3.11 scripts/quickstart.sh      make the environment with this Python
#   VENV=DIR scripts/quickstart.sh               use (or make) this environment, not .venv
#   QUICKSTART_DIR=DIR scripts/quickstart.sh     write to this folder, not quickstart-run
#   QUICKSTART_SMOKE=1 scripts/quickstart.sh     40 updates: tries every step, learns nothing
set -euo pipefail

fail() {
    echo "quickstart.sh: $*" >&2
    exit 1
}

absolute() { # PATH as seen from where the script was called
    case $1 in
        /*) printf '%s\n' "$1" ;;
        *) printf '%s\n' "$PWD/$1" ;;
    esac
}

repo=$(cd "$(dirname "$0")/.." && pwd)
venv=$repo/.venv
run=quickstart-run # relative to the clone, so that the commands shown are short
if [ -n "${VENV:-}" ]; then venv=$(absolute "$VENV"); fi
if [ -n "${QUICKSTART_DIR:-}" ]; then run=$(absolute "$QUICKSTART_DIR"); fi
cd "$repo"
case $run in
    *:*) fail "QUICKSTART_DIR is $run; fairseq takes ':' as a separator, choose a path without it" ;;
esac

updates=1800
interval=200
log_interval=50
if [ "${QUICKSTART_SMOKE:-0}" != 0 ]; then
    updates=40
    interval=20
    log_interval=10
fi
warmup=$((updates / 20))
length=64 # tokens in a sample; the longest line of text has two less, for <s> and </s>

# Threads that wait by spinning starve any other process on few cores; and a model this small
# gains nothing from many threads.
cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores < 4 ? cores : 4))}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
export PYTHONIOENCODING=utf-8

trap 'echo; echo "interrupted; run again to go on from here"; exit 130' INT

# ---- showing and running commands

show() { # COMMAND...: as one would type it, broken before flags
    local word line="\$" column=1
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_./=,:+-]*) word="'$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'" ;;
        esac
        if [[ $word == --* ]] && ((column > 70)); then
            line+=$' \\\n     '
            column=5
        fi
        line+=" $word"
        column=$((column + 1 + ${#word}))
    done
    printf '%s\n' "$line"
}

run_logged() { # LOG FILTER COMMAND...: everything goes to LOG, and what FILTER lets pass is shown
    local log=$1 filter=$2
    shift 2
    show "$@"
    if ! "$@" 2>&1 | tee -a "$log" | "$filter"; then
        echo "---- the end of $log:" >&2
        tail -n 20 "$log" | cut -c 1-400 >&2
        fail "$1 stopped with an error; the whole log is $log. Run again to go on from here"
    fi
}

run_python() { # shows and runs the program on stdin
    local program
    program=$(cat)
    echo "\$ python - <<'END'"
    printf '%s\nEND\n' "$program"
    python - <<<"$program"
}

all_lines() {
    cat
}

preprocess_lines() {
    grep --line-buffered -E 'Dictionary:|sents|Wrote' || true
}

validate_lines() {
    grep --line-buffered -oE 'loss [0-9.]+ \| ppl [0-9.]+' || true
}

train_lines() { # fairseq's long log lines, cut down to the progress
    local line left speed
    while IFS= read -r line; do
        if [[ $line =~ train_inner.*\ ppl=([0-9.e+]+).*\ ups=([0-9]*)\.?([0-9]?).*num_updates=([0-9]+) ]]; then
            speed=$((10#${BASH_REMATCH[2]:-0} * 10 + 10#${BASH_REMATCH[3]:-0}))
            left=$(((updates - BASH_REMATCH[4]) * 10 / (speed > 0 ? speed : 1)))
            printf 'update %4d of %d   training perplexity %8s   %s.%s updates/s   %d:%02d left\n' \
                "${BASH_REMATCH[4]}" "$updates" "${BASH_REMATCH[1]}" $((speed / 10)) $((speed % 10)) \
                $((left / 60)) $((left % 60))
        elif [[ $line =~ valid\ on\ .*\ ppl\ ([0-9.e+]+).*num_updates\ ([0-9]+) ]]; then
            printf 'update %4d of %d   validation perplexity %6s\n' \
                "${BASH_REMATCH[2]}" "$updates" "${BASH_REMATCH[1]}"
        elif [[ $line =~ num.\ (shared\ )?model\ params:\ ([0-9,]+) ]]; then
            echo "parameters: ${BASH_REMATCH[2]}"
        elif [[ $line =~ Loaded\ checkpoint.*@\ ([0-9]+)\ updates ]]; then
            echo "resumed at update ${BASH_REMATCH[1]}"
        fi
    done
}

# ---- steps: each is done once for each set of inputs

key="" # what the steps so far depend on
number=0
steps=8
step() { # NAME OUTPUT TITLE INPUT...: true if the step is to be done; then ends with `finished`
    name=$1 output=$run/$2
    number=$((number + 1))
    local title=$3
    shift 3
    key=$(printf '%s\n' "$key" "$@" | cksum)
    echo
    if [ -e "$output" ] && [ "$(cat "$run/.steps/$name" 2>/dev/null)" = "done $key" ]; then
        echo "== $number/$steps $title: done before"
        return 1
    fi
    echo "== $number/$steps $title"
    started=$SECONDS
    # what an interrupted step left is of use to a training with the same settings only
    if [ "$name" != train ] || [ "$(cat "$run/.steps/$name" 2>/dev/null)" != "begun $key" ]; then
        rm -rf "$output"
    fi
    echo "begun $key" >"$run/.steps/$name"
}

finished() {
    echo "done $key" >"$run/.steps/$name"
    echo "-- took $((SECONDS - started)) s"
}

# ---- environment

has_package() { # the packages are found, and from anywhere (-I: not because we are in the clone)
    [ -x "$venv/bin/fairseq-train" ] && "$venv/bin/python" -I -c '
import sys
from importlib.util import find_spec
sys.exit(not all(map(find_spec, ["fairseq", "sentencepiece", "torch", "tupe_fairseq"])))'
}

begin=$SECONDS
echo "== environment: $venv"
if [ -n "${VENV:-}" ] && has_package; then
    echo "has everything already"
else
    scripts/setup_venv.sh "${PYTHON:-python3}" "$venv"
fi
export PATH="$venv/bin:$PATH"
installed=$SECONDS

if [ -e "$run" ] && [ ! -e "$run/.steps" ] && [ -n "$(ls -A "$run")" ]; then
    fail "QUICKSTART_DIR is $run, which holds other files; choose an empty or a new folder"
fi
mkdir -p "$run/.steps"
echo "the commands below run in $repo, with $venv/bin on the PATH"

device_flags=()
find_device() { # --cpu where no GPU works: one that this torch has no code for counts as none
    if [ -n "${device:-}" ]; then return; fi
    device=$(python -c '
import torch
try:
    torch.ones(8, 8, device="cuda").mm(torch.ones(8, 8, device="cuda")).sum().item()
    print(torch.cuda.get_device_name(0))
except Exception:
    print("cpu")')
    if [ "$device" = cpu ]; then device_flags=(--cpu); fi
    echo "device: $device, $OMP_NUM_THREADS threads"
}

# ---- from text to data

if step corpus corpus "English text out of Python's documentation" \
    "$(python -VV)" "$(cksum <scripts/build_corpus.py)"; then
    show python scripts/build_corpus.py "$run/corpus"
    python scripts/build_corpus.py "$run/corpus"
    finished
fi

if step vocabulary pieces "a vocabulary of 2,000 pieces (SentencePiece)" 2000; then
    mkdir -p "$run/pieces"
    run_python <<END
import sentencepiece as spm
spm.SentencePieceTrainer.train(
    input="$run/corpus/train.txt", model_prefix="$run/pieces/sentencepiece.bpe",
    vocab_size=2000, hard_vocab_limit=False, user_defined_symbols=["<mask>"], minloglevel=1,
)
END
    finished
fi

if step encode encoded "text to pieces, at most $((length - 2)) a line" $length; then
    mkdir -p "$run/encoded"
    run_python <<END
import sentencepiece as spm
sp = spm.SentencePieceProcessor(model_file="$run/pieces/sentencepiece.bpe.model")
limit = $((length - 2))
for split in ("train", "valid"):
    with open("$run/corpus/" + split + ".txt", encoding="utf-8") as text, \\
            open("$run/encoded/" + split + ".spm", "w", encoding="utf-8") as encoded:
        for line in text:
            pieces = sp.encode(line.strip(), out_type=str)
            for i in range(0, len(pieces), limit):
                print(" ".join(pieces[i : i + limit]), file=encoded)
END
    finished
fi

if step preprocess data-bin "dictionary and binary data (fairseq-preprocess)"; then
    run_logged "$run/preprocess.log" preprocess_lines \
        fairseq-preprocess --only-source --trainpref "$run/encoded/train.spm" \
        --validpref "$run/encoded/valid.spm" --destdir "$run/data-bin" --workers 2
    finished
fi

# ---- training

# No dropout: so short a training does not overfit.  At twice this rate the model stays much longer
# on the plateau where it knows no more than the frequencies of the pieces.
train=(
    fairseq-train "$run/data-bin" --user-dir tupe_fairseq --arch tupe_roberta_tiny --rel-pos
    --task masked_lm --criterion masked_lm --sample-break-mode none
    --tokens-per-sample $length --max-positions $length --batch-size 32
    --dropout 0 --attention-dropout 0
    --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0
    --lr 1.5e-3 --lr-scheduler polynomial_decay --warmup-updates $warmup --total-num-update $updates
    --log-format simple --log-interval $log_interval --num-workers 0 --seed 1
    --data-buffer-size 0 # a thread that still reads ahead when the process ends can abort it
    --required-batch-size-multiple 1 # else fairseq's main branch drops a smaller last batch
    --distributed-world-size 1
    --save-interval-updates $interval --keep-interval-updates 1 --no-epoch-checkpoints
    --save-interval 1000 --validate-interval 1000
)

if step before before "a checkpoint after one update, to compare with" "${train[@]}"; then
    find_device
    # not 0: --max-update 0 means no limit
    run_logged "$run/before.log" train_lines "${train[@]}" ${device_flags[@]+"${device_flags[@]}"} \
        --max-update 1 --save-dir "$run/before"
    finished
fi

if step train checkpoints "pre-training, $updates updates (fairseq-train)" $updates; then
    find_device
    # fairseq copies checkpoint_last.pt into place: cut short, it is no zip file
    last=$run/checkpoints/checkpoint_last.pt
    if [ -e "$last" ] && ! python -m zipfile --list "$last" >/dev/null 2>&1; then
        echo "$last is incomplete; going on from an older checkpoint"
        rm "$last"
        older=$(ls -t "$run"/checkpoints/checkpoint_[0-9]*_[0-9]*.pt 2>/dev/null | head -n 1 || true)
        if [ -n "$older" ]; then cp "$older" "$last"; fi
    fi
    run_logged "$run/train.log" train_lines "${train[@]}" ${device_flags[@]+"${device_flags[@]}"} \
        --max-update $updates --save-dir "$run/checkpoints"
    cp "$run/data-bin/dict.txt" "$run/pieces/sentencepiece.bpe.model" "$run/checkpoints/"
    finished
fi

if step validate validate.log "validation before and after (fairseq-validate)"; then
    find_device
    for checkpoint in before/checkpoint_last.pt checkpoints/checkpoint_best.pt; do
        log=$run/validate-${checkpoint%%/*}.log
        rm -f "$log"
        run_logged "$log" validate_lines \
            fairseq-validate "$run/data-bin" --user-dir tupe_fairseq --task masked_lm \
            --path "$run/$checkpoint" --batch-size 32 --required-batch-size-multiple 1 \
            --log-format simple --num-workers 0 \
            ${device_flags[@]+"${device_flags[@]}"}
    done
    cat "$run"/validate-{before,checkpoints}.log >"$run/validate.log"
    finished
fi

report=(python scripts/quickstart_report.py "$run")
if step report report.txt "the result" "$(cksum <scripts/quickstart_report.py)"; then
    show "${report[@]}"
    "${report[@]}" | tee "$run/report.tmp"
    mv "$run/report.tmp" "$run/report.txt"
    finished
else
    cat "$run/report.txt"
fi
echo
echo "quickstart: done in $((SECONDS - installed)) s after $((installed - begin)) s of installation"
