#!/usr/bin/env bash
# A small comparison, to be run after a change: TUPE-R and learned positions, on the English that every
# Python ships.  Exits with 1 if TUPE-R no longer leaves the plateau, or no longer before learned
# positions do.
#
#   examples/results/short.sh        in the root of a clone; writes short-data
#
# A second run resumes and does not repeat what is finished: remove short-data/compared after a
# change.  The commands must be on PATH.
set -euo pipefail

cd "$(dirname "$0")/../.."
if [ ! -e short-data/text ]; then
    python scripts/build_corpus.py short-data/text.partial
    mv short-data/text.partial short-data/text
fi
tupe-prepare-pretrain --input short-data/text/train.txt --valid-input short-data/text/valid.txt \
    --vocab-size 2000 --tokens-per-sample 64 --output-dir short-data/data-bin
tupe-compare @examples/results/short.args
python - <<'END'
import json, sys
with open("short-data/compared/results.json", encoding="utf-8") as file:
    rows = json.load(file)["summary"]
# a run that diverged has no final loss
losses = {row["scheme"]: row["final_loss"]["mean"] for row in rows if row["final_loss"]}
learned, tupe = losses.get("learned", 0), losses.get("tupe --rel-pos", 99)
print(f"bits per masked token: learned {learned}, tupe --rel-pos {tupe}; at most 7.5, and 0.15 apart")
sys.exit(tupe > 7.5 or learned - tupe < 0.15)
END
