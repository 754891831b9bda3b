#!/usr/bin/env bash
# Makes small models of every kind, exports them, and uses the folders in environments that have
# neither fairseq nor this package: one with the newest transformers and one with 4.57.
#
#   scripts/export/check_export.sh OUT [--text TRAIN --valid VALID] [--glue DIR] [--goldens DIR]
#   scripts/export/check_export.sh OUT --quick        three kinds, 100 sentences, a few minutes
#
#   PYTHON=DIR/bin/python ...        the environment with fairseq and this package (default: python3)
#   HF_PYTHONS="A/bin/python B/bin/python" ...    use these environments, instead of making them
#
# TRAIN and VALID are English text, plain or .xz; without them it is what every Python ships
# (scripts/build_corpus.py).  GLUE has the official files: without it no heads are tried, and
# Trainer is not compared with fairseq-train.  GOLDENS has checkpoints of the TUPE authors' code.
# What OUT has already is kept, so that a second run goes on.  Ends with 1 if a check fails.
set -euo pipefail

usage() {
    sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
versions=(5.24.0 4.57.6)
if [ $# -eq 0 ] || [[ $1 == -* ]]; then usage; fi
out=$(realpath -m "$1")
shift
quick=() text='' valid='' glue='' goldens='' sentences=1000
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=(--quick) sentences=100 && shift ;;
        --text | --valid | --glue | --goldens)
            if [ $# -lt 2 ]; then usage; fi
            declare "${1#--}=$(realpath "$2")"
            shift 2
            ;;
        *) usage ;;
    esac
done
# one thread: several processes with several threads each slow each other down
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out"

# ---- environments without fairseq and this package

pythons=()
if [ -n "${HF_PYTHONS:-}" ]; then
    read -ra pythons <<<"$HF_PYTHONS"
else
    for version in "${versions[@]}"; do
        venv=$out/venv-$version
        if [ ! -e "$venv/.installed" ]; then
            echo "== installing transformers $version into $venv"
            "$python" -m venv "$venv"
            "$venv/bin/pip" install --quiet torch "transformers==$version" \
                sentence-transformers accelerate onnxruntime
            touch "$venv/.installed"
        fi
        pythons+=("$venv/bin/python")
    done
fi

# ---- models, folders, and what the hub interface gives

begin=$SECONDS
if [ -z "$text" ]; then
    if [ ! -e "$out/corpus" ]; then
        "$python" "$repo/scripts/build_corpus.py" "$out/corpus.partial"
        mv "$out/corpus.partial" "$out/corpus"
    fi
    text=$out/corpus/train.txt valid=$out/corpus/valid.txt
fi
more=()
if [ -n "$glue" ]; then more+=(--glue "$glue"); fi
if [ -n "$goldens" ]; then more+=(--goldens "$goldens"); fi
if [ ${#quick[@]} -eq 0 ]; then more+=(--ids-of "$text"); fi
PYTHONPATH=$repo${PYTHONPATH:+:$PYTHONPATH} "$python" "$here/make_kinds.py" "$out" --text "$text" \
    --valid "$valid" --sentences "$sentences" "${more[@]}" "${quick[@]}"

# ---- their use

failed=()
in_strangers() { # SCRIPT ARGUMENTS: at once, from OUT, so that no file of the clone is found
    local script=$1 number jobs=()
    shift
    for number in "${!pythons[@]}"; do
        (cd "$out" && env -u PYTHONPATH "${pythons[number]}" "$here/$script" "$@") \
            >"$out/$script.$number.log" 2>&1 &
        jobs+=($!)
    done
    for number in "${!pythons[@]}"; do
        wait "${jobs[number]}" || failed+=("${pythons[number]} $script")
        printf '\n== %s with %s\n' "$script" "${pythons[number]}"
        cat "$out/$script.$number.log"
    done
}
in_strangers use_folder.py "$out/references" "$out"/folders/* "${quick[@]}"
if [ -n "$glue" ] && [ ${#quick[@]} -eq 0 ]; then
    if [ ! -e "$out/cola/updates.pt" ]; then
        PYTHONPATH=$repo${PYTHONPATH:+:$PYTHONPATH} "$python" "$here/fairseq_cola.py" "$out/cola" \
            --data "$out/glue-bin/CoLA" --checkpoint "$out/models/cola/checkpoint_last.pt"
    fi
    in_strangers trainer_vs_fairseq.py "$out/folders/cola" "$out/cola/updates.pt" --cola "$glue/CoLA"
fi

# ---- what was checked

echo
folders=("$out"/folders/*)
echo "check_export: ${#folders[@]} kinds, $sentences sentences each: ${folders[*]##*/}"
for stranger in "${pythons[@]}"; do
    "$stranger" - <<'END'
import importlib.metadata
import sys

names = "torch transformers tokenizers sentence-transformers accelerate onnxruntime".split()
found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
print(f"  Python {sys.version.split()[0]}: " + ", ".join(f"{n} {found.get(n, 'not installed')}" for n in names))
END
done
if [ -z "$glue" ]; then echo "  not checked: classification heads and Trainer on CoLA (--glue)"; fi
if [ -z "$goldens" ]; then echo "  not checked: converted checkpoints of the authors (--goldens)"; fi
if [ ${#quick[@]} -gt 0 ]; then echo "  not checked: the other kinds, Trainer, torch.compile (no --quick)"; fi
echo "  $((SECONDS - begin)) s without installation"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
echo "  all passed"
