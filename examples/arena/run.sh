#!/usr/bin/env bash
# Makes a row of the arena: trains a position encoding at three rates, with two more seeds at the best
# of them, and measures it.  Run it again to resume; what is finished is skipped.
#
#   examples/arena/run.sh "tupe --rel-pos"                          a scheme as tupe-compare takes it
#   examples/arena/run.sh learned-slopes --user-dir my_encodings    your own
#
# Folders are those of the root of a clone.  Works in arena-data, and writes an entry, the table and
# the figure to examples/arena.  The commands must be on PATH.
set -euo pipefail

if [ $# -eq 0 ]; then
    echo 'run.sh: give a scheme, such as "tupe --rel-pos"' >&2
    exit 2
fi
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1
scheme=$1 name=$(tr -s ' -' '-' <<<"$1") flags=("${@:2}")
runs=arena-data/runs/$name
if [ ! -e arena-data/bin ]; then
    python examples/arena/text.py arena-data/text
    tupe-prepare-pretrain --input arena-data/text/train.txt --valid-input arena-data/text/valid.txt \
        --vocab-size 2000 --tokens-per-sample 128 --output-dir arena-data/bin.partial
    mv arena-data/bin.partial arena-data/bin
fi
compare() { # RATE SEEDS
    tupe-compare @examples/arena/arena.args --schemes "$scheme" --lr "$1" --seeds "$2" \
        --output-dir "$runs/$1" "${flags[@]}" >/dev/null
}
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
