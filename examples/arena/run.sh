#!/usr/bin/env bash
# Makes a row of the arena: trains a position encoding at three rates, with two more seeds at the best
# of them, and measures it.  Run it again to resume; what is finished is skipped.
#
#   examples/arena/run.sh "tupe --rel-pos"                          a scheme as tupe-compare takes it
#   examples/arena/run.sh learned-slopes --user-dir my_encodings    your own
#   examples/arena/run.sh --trial learned-slopes --user-dir my_encodings
#                                                                   20 updates: does all of it run?
#
# Folders are those of the root of a clone.  Works in arena-data, and writes an entry, the table and
# the figure to examples/arena.  The commands must be on PATH.
set -euo pipefail

stop() { echo "run.sh: $*" >&2 && exit 2; }
trial=
if [ "${1:-}" = --trial ]; then trial=yes && shift; fi
case ${1:--} in -*) stop 'give a scheme, such as "tupe --rel-pos"' ;; esac
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1
scheme=$1 name=$(tr -s ' -' '-' <<<"$1") flags=("${@:2}")
runs=arena-data/runs/$name
for flag in "${flags[@]}"; do
    if [ -z "$trial" ] && [ -d "$flag" ]; then
        changes=$(git status --porcelain -- "$flag") && [ -z "$changes" ] ||
            stop "$flag: commit it first, so that the row's commit has it"
    fi
done
if [ ! -e arena-data/bin ]; then
    python examples/arena/text.py arena-data/text
    tupe-prepare-pretrain --input arena-data/text/train.txt --valid-input arena-data/text/valid.txt \
        --vocab-size 2000 --tokens-per-sample 128 --output-dir arena-data/bin.partial --overwrite >/dev/null
    mv arena-data/bin.partial arena-data/bin
fi
compare() { # RATE SEEDS [FLAG...]
    tupe-compare @examples/arena/arena.args --schemes "$scheme" --lr "$1" --seeds "$2" \
        --output-dir "$runs/$1" "${flags[@]}" "${@:3}" >/dev/null
}
if [ "$trial" ]; then
    runs=arena-data/trial/$name
    rm -rf "$runs"
    compare 0.002 1 --updates 20
    python examples/arena/entry.py "$runs" "${flags[@]}" >/dev/null
    echo "run.sh: $scheme can be trained and measured"
    exit
fi
if [ ! -e "$runs/entry.json" ]; then
    for rate in 0.001 0.002 0.004; do
        compare $rate 1
    done
    rate=$(python examples/arena/entry.py "$runs" --best-rate)
    compare "$rate" 1,2,3
    python examples/arena/entry.py "$runs" "${flags[@]}" >"$runs/entry.partial"
    mv "$runs/entry.partial" "$runs/entry.json"
fi
python examples/arena/table.py "$runs/entry.json"
echo "run.sh: wrote examples/arena/entries/$name.json, and README.md and loss_by_updates.png beside it"
