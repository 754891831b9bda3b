#!/usr/bin/env bash
# The second study of PLAN.md.  Finished runs are kept and an interrupted one resumes: give a command
# again to go on.  The commands must be on PATH.
#
#   examples/results/arena.sh data TRAIN VALID BLIMP GLUE
#       writes results-data/arena.  TRAIN, VALID: text, one paragraph per line, with blank lines between
#       documents (plain, .gz, .xz, .bz2); BLIMP: a .tar archive; GLUE: the folder with CoLA, RTE, ...
#   examples/results/arena.sh train [FLAG...]
#       on a GPU: the learning rates, then pre-training and BLiMP, one seed after the other.
#       FLAG: of tupe-compare, after those of arena.args
#   examples/results/arena.sh tasks [FLAG...]
#       CoLA, RTE, MRPC, SST-2 and STS-B from the checkpoints; on a CPU with --cpu
#   examples/results/arena.sh pack FOLDER [RUN...]
#   examples/results/arena.sh unpack FOLDER
#       take the results and the checkpoints of runs such as 'tupe*-seed1' to another machine
set -euo pipefail

usage() {
    sed -n '2,17s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] || usage
what=$1 && shift
study=examples/results/arena data=results-data/arena tasks=CoLA,RTE,MRPC,SST-2,STS-B
case $what,$# in
data,4) paths=("$(realpath "$1")" "$(realpath "$2")" "$(realpath "$3")" "$(realpath "$4")") ;;
pack,[1-9]* | unpack,1) folder=$(realpath -m "$1") && shift ;;
train,* | tasks,*) ;;
*) usage ;;
esac
cd "$(dirname "$0")/../.."

if [ $what = data ]; then
    tupe-prepare-pretrain --input "${paths[0]}" --valid-input "${paths[1]}" \
        --output-dir $data/data-bin --vocab-size 8192 --tokens-per-sample 128
    cp "${paths[2]}" $data/blimp.tar
    tupe-prepare-glue --glue-dir "${paths[3]}" --tasks $tasks --pretrain-dir $data/data-bin \
        --output-dir $data/glue
elif [ $what = pack ]; then
    mkdir -p "$folder"
    (cd $study && find . -name result.json -o -name settings.json -o -name 'results.*') |
        tar -cf "$folder/results.tar" -C $study -T -
    cd $study/tupe_roberta_tiny
    [ $# -gt 0 ] || set -- '*'
    for run in $*; do # patterns
        if [ ! -e "$run/result.json" ] || [ ! -e "$run/checkpoint_last.pt" ]; then continue; fi
        # in 16 bits, without the state of the optimizer and the second copy of the word embedding;
        # of this study's own files alone
        python3 - "$run/checkpoint_last.pt" "$folder/$run.pt" <<'END'
import sys, torch
state = torch.load(sys.argv[1], weights_only=False)
model = {k: v.half() if v.is_floating_point() else v for k, v in state["model"].items()}
model["encoder.lm_head.weight"] = model["encoder.sentence_encoder.embed_tokens.weight"]
torch.save({**state, "model": model, "last_optimizer_state": None}, sys.argv[2])
END
    done
elif [ $what = unpack ]; then
    mkdir -p $study
    tar -xf "$folder/results.tar" -C $study
    for file in "$folder"/*.pt; do
        cp "$file" "$study/tupe_roberta_tiny/$(basename "$file" .pt)/checkpoint_last.pt"
    done
else
    if [ ! -e $data/blimp ]; then
        mkdir -p $data/blimp.part
        tar -xf $data/blimp.tar -C $data/blimp.part
        mv $data/blimp.part $data/blimp
    fi
    flags=(--tune-lrs 7.5e-4,1.5e-3,3e-3 --tune-updates 692)
    if [ $what = train ]; then
        flags+=(--fp16)
    else
        flags+=(
            --schemes "learned; none --rel-pos; alibi; tupe; tupe --tie-cls; tupe --rel-pos"
            --tasks "$data/glue/${tasks//,/,$data/glue/}"
            --finetune-flags "--lrs 2e-4 --seeds 1,2,3 --epochs 4"
        )
    fi
    tupe-compare @examples/results/arena.args "${flags[@]}" "$@"
fi
