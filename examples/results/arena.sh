#!/usr/bin/env bash
# The second study of PLAN.md.  Finished runs are kept and an interrupted one resumes: run a command
# again to continue.  The commands must be on PATH.
#
#   examples/results/arena.sh data TRAIN VALID BLIMP GLUE
#       writes results-data/arena.  TRAIN, VALID: text, one paragraph per line, with blank lines between
#       documents (plain, .gz, .xz, .bz2); BLIMP: a .tar archive; GLUE: the folder with CoLA, RTE, ...
#   examples/results/arena.sh train [FLAG...]
#       on a GPU: tunes the learning rates, then pre-trains and runs BLiMP, one seed after the other.
#       FLAG: a flag of tupe-compare, after those of arena.args; --cpu for a small trial; --dry-run
#       trains nothing and says whether existing runs can continue
#   examples/results/arena.sh tasks [FLAG...]
#       fine-tunes the checkpoints of each seed that has all six encodings on CoLA, RTE, MRPC, SST-2
#       and STS-B; on a CPU with --cpu
#   examples/results/arena.sh pack FOLDER [RUN...]
#   examples/results/arena.sh unpack FOLDER
#       take the results of all runs, and the checkpoints of finished runs such as 'tupe*-seed1', to
#       another machine, which has results-data/arena; its own files stay
set -euo pipefail

usage() {
    sed -n '2,20s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] || usage
what=$1 && shift
study=examples/results/arena data=results-data/arena tasks=CoLA,RTE,MRPC,SST-2,STS-B
case $what,$# in
data,4)
    for path in "$@"; do
        [ -e "$path" ] || { echo "arena.sh: there is no $path" >&2 && exit 2; }
    done
    paths=("$(realpath "$1")" "$(realpath "$2")" "$(realpath "$3")" "$(realpath "$4")")
    ;;
pack,[1-9]* | unpack,1) folder=$(realpath -m "$1") && shift ;;
train,* | tasks,*) ;;
*) usage ;;
esac
cd "$(dirname "$0")/../.."

if [ $what = data ]; then
    tupe-prepare-pretrain --input "${paths[0]}" --valid-input "${paths[1]}" \
        --output-dir $data/data-bin --vocab-size 8192 --tokens-per-sample 128
    rm -rf $data/blimp && mkdir $data/blimp && tar -xf "${paths[2]}" -C $data/blimp
    tupe-prepare-glue --glue-dir "${paths[3]}" --tasks $tasks --pretrain-dir $data/data-bin \
        --output-dir $data/glue
elif [ $what = pack ] || [ $what = unpack ]; then
    python3 examples/results/carry.py $what "$folder" "$@"
else
    flags=(--tune-lrs 7.5e-4,1.5e-3,3e-3 --tune-updates 692)
    if [ $what = train ]; then
        case " $* " in *" --cpu "*) ;; *) flags+=(--fp16) ;; esac
    else
        seeds= # those that need no more training
        for seed in 1 2 3; do
            whole=yes
            for run in learned none_rel-pos alibi tupe tupe_tie-cls tupe_rel-pos; do
                run=$study/tupe_roberta_tiny/$run-seed$seed
                [ -e $run/checkpoint_last.pt ] && [ -e $run/result.json ] ||
                    grep -qs '"diverged": "' $run/result.json || whole=
            done
            if [ $whole ]; then seeds+=${seeds:+,}$seed; fi
        done
        [ "$seeds" ] || { echo "arena.sh: no seed has the checkpoints of all six encodings" >&2 && exit 2; }
        flags+=(
            --schemes "learned; none --rel-pos; alibi; tupe; tupe --tie-cls; tupe --rel-pos"
            --seeds $seeds
            --tasks "$data/glue/${tasks//,/,$data/glue/}"
            --finetune-flags "--lrs 2e-4 --seeds 1,2,3 --epochs 4"
        )
    fi
    # exec: a signal to this script ends it
    exec tupe-compare @examples/results/arena.args "${flags[@]}" "$@"
fi
