"""Runs the commands and examples of the pages, on models cut down to a tiny size."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys

from helpers.cli import BIN, ENV, REPO
from helpers.running import run

SIZE = {"encoder-layers": 2, "encoder-embed-dim": 32, "encoder-ffn-embed-dim": 64,
        "encoder-attention-heads": 4}  # fmt: skip
TINY = " ".join(f"--{flag} {value}" for flag, value in SIZE.items())
SHORT = "--cpu --num-workers 0 --data-buffer-size 0 --max-update 2 --max-epoch 1"
HYDRA_TINY = " ".join(
    [
        "common.cpu=true", "common.fp16=false", "common.bf16=false", "dataset.num_workers=0",
        "dataset.data_buffer_size=0", "dataset.batch_size=2", "optimization.max_update=2",
        "optimization.update_freq=[1]", "distributed_training.distributed_world_size=1",
        "distributed_training.distributed_backend=gloo",
        "distributed_training.ddp_backend=legacy_ddp",
        *(f"+model.{flag.replace('-', '_')}={value}" for flag, value in SIZE.items()),
    ]
)  # fmt: skip
# The commands themselves, with flags at the end that make them small; later flags win.
SHELL = f"""
set -e
export PATH="{BIN}:$PATH"
fairseq-train() {{
    case "$*" in *tupe_transformer_*) ;; *) set -- "$@" {TINY} ;; esac
    command fairseq-train "$@" {SHORT}
}}
fairseq-eval-lm() {{ command fairseq-eval-lm "$@" --cpu; }}
fairseq-generate() {{ command fairseq-generate "$@" --cpu; }}
fairseq-hydra-train() {{ command fairseq-hydra-train "$@" {HYDRA_TINY}; }}
tupe-prepare-pretrain() {{
    case "$*" in *--vocabulary*) ;; *) set -- "$@" --vocab-size 300 ;; esac
    command tupe-prepare-pretrain "$@" --workers 1
}}
tupe-prepare-glue() {{ command tupe-prepare-glue "$@" --workers 1; }}
tupe-prepare-task() {{ command tupe-prepare-task "$@" --workers 1; }}
python() {{
    case "$*" in
        *train.conll*) set -- "$@" --sentences 400 ;;
        *valid.conll*) set -- "$@" --sentences 20 ;;
    esac
    command python "$@"
}}
tupe-finetune() {{ command tupe-finetune "$@" --cpu --epochs 1 --lrs 2e-5 --seeds 1 $DRY_RUN; }}
tupe-compare() {{
    command tupe-compare "$@" --updates 2 --validate-every 2 --seeds 1 \\
        --batch-size 2 --tokens-per-sample 64
}}
tupe-plot() {{ command tupe-plot "$@" --dpi 20; }}
"""
# downloads, hours, and what other tests run
ELSEWHERE = ("git clone ", "hf download ", "pip install ", "scripts/")


def blocks(page):
    text = (REPO / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(bash|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(language, code) for language, code in found if not code.startswith(ELSEWHERE)]


def execute(language, code, folder, here=True, **env):
    """Run a block as a user does; what it printed.

    Args:
        here: in this process, which saves a start of torch and fairseq, if that is possible.
    """
    if here and language == "python":
        return _execute_python(code, folder)
    code = code.replace("$PWD", str(folder))
    if here and language == "bash" and not set("$|<>;(){}") & set(code.replace("'(0.9,", "")):
        lines = code.replace("\\\n", " ").splitlines()
        return "".join(_call(shlex.split(line), folder, env) for line in lines if line)
    command = ["bash", "-c", SHELL + code] if language == "bash" else [sys.executable, "-c", code]
    process = subprocess.run(
        command, cwd=folder, env={**ENV, "DRY_RUN": "", **env}, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.returncode == 0, f"{code}\n{process.stdout[-5000:]}"
    return process.stdout


def _call(words, folder, env):
    """One command with the flags of SHELL, which end it."""
    function = re.search(rf"^{words[0]}\(\) {{.*?}}$", SHELL, re.MULTILINE | re.DOTALL)
    if function is not None:  # the shell itself says what they are
        script = function[0].replace("command ", "printf '%s\\0' ")
        script = f"{script}\n{shlex.join(words)}"
        output = subprocess.run(
            ["bash", "-c", script], env={**ENV, "DRY_RUN": "", **env}, stdout=-1, check=True
        ).stdout
        words = output.decode().split("\0")[:-1]
    return run(*words, cwd=folder).stdout


def _execute_python(code, folder):
    before, output = os.getcwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output):
            exec(code, {"__name__": "__main__"})
    finally:
        os.chdir(before)
    return output.getvalue()
