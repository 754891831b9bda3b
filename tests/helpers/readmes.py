"""Runs the commands and examples of the READMEs, on a model cut down to a tiny size."""

import re
import subprocess

from helpers.running import BIN, ENV, REPO
from helpers.training import SIZE

TINY = " ".join(map(str, SIZE)) + " --cpu --num-workers 0 --data-buffer-size 0"
HYDRA_TINY = " ".join(
    [
        "common.cpu=true", "common.fp16=false", "dataset.num_workers=0",
        "dataset.data_buffer_size=0", "dataset.batch_size=2", "optimization.max_update=2",
        "distributed_training.distributed_world_size=1",
        "distributed_training.distributed_backend=gloo",
        "distributed_training.ddp_backend=legacy_ddp",
        *(f"+model.{flag[2:].replace('-', '_')}={n}" for flag, n in zip(SIZE[::2], SIZE[1::2])),
    ]
)  # fmt: skip
# The commands themselves, with flags at the end that make them small; later flags win.
SHELL = f"""
set -e
export PATH="$SHIMS:{BIN}:$PATH"
fairseq-train() {{ command fairseq-train "$@" {TINY} --max-update 2 --max-epoch 1; }}
fairseq-hydra-train() {{ command fairseq-hydra-train "$@" {HYDRA_TINY}; }}
tupe-prepare-pretrain() {{ command tupe-prepare-pretrain "$@" --vocab-size 300 --workers 1; }}
tupe-prepare-glue() {{ command tupe-prepare-glue "$@" --workers 1; }}
tupe-prepare-task() {{ command tupe-prepare-task "$@" --workers 1; }}
python() {{
    case "$*" in
        *train.conll*) set -- "$@" --sentences 400 ;;
        *valid.conll*) set -- "$@" --sentences 20 ;;
    esac
    command python "$@"
}}
tupe-finetune() {{
    case "$*" in *roberta*) set -- "$@" --dry-run ;; esac  # its like has run before
    command tupe-finetune "$@" --cpu --epochs 1 --lrs 2e-5 --seeds 1
}}
tupe-compare() {{
    command tupe-compare "$@" --updates 2 --validate-every 2 --seeds 1 \\
        --batch-size 2 --tokens-per-sample 64
}}
tupe-plot() {{ command tupe-plot "$@" --dpi 20; }}
"""
# Run by tests/scripts and continuous integration; *_small.sh take long, so a person runs them.
# Two processes of torchrun: tests/through_fairseq/test_pretrain.py.
ELSEWHERE = (
    "scripts/quickstart.sh", "scripts/test.sh", "pip install ", "scripts/glue_small.sh",
    "scripts/tagging_small.sh", "torchrun --standalone",
)  # fmt: skip


def blocks(path):
    text = (REPO / path).read_text(encoding="utf-8")
    return re.findall(r"^```(bash|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def execute(language, code, folder, **kwargs):
    """Run a block where nothing needs to import torch and fairseq first; what it printed."""
    python = [f"{ENV['SHIMS']}/python", "-c", code]
    process = subprocess.run(
        ["bash", "-c", SHELL + code] if language == "bash" else python,
        cwd=folder, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs,
    )  # fmt: skip
    assert process.returncode == 0, f"{code}\n{process.stdout[-5000:]}"
    return process.stdout


def link(folder, *names):
    """Names of the repository's top level, as in the root of a clone."""
    for name in names:
        if not (folder / name).exists():
            (folder / name).symlink_to(REPO / name)
