"""Every command and example of the READMEs runs, on a model cut down to a tiny size."""

import json
import re
import subprocess
import sys

import pytest
import torch
import transformers

from helpers import authors
from helpers.glue_files import write_glue
from helpers.running import BIN, ENV, INSTALLED, REPO
from helpers.training import SIZE, free_port
from helpers.vocabularies import write_gpt2
from tupe_fairseq.position import CATALOGUE

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
tupe-finetune() {{
    case "$*" in *roberta*) set -- "$@" --dry-run ;; esac  # its like has run before
    command tupe-finetune "$@" --cpu --epochs 1 --lrs 2e-5 --seeds 1
}}
tupe-compare() {{ command tupe-compare "$@" --updates 2 --seeds 1; }}
"""
# Run by tests/scripts and continuous integration; glue_small.sh takes hours, so a person runs it.
# Two processes of torchrun: tests/through_fairseq/test_pretrain.py.
ELSEWHERE = (
    "scripts/quickstart.sh", "scripts/test.sh", "pip install ", "scripts/glue_small.sh",
    "torchrun --standalone",
)  # fmt: skip
# below this transformers has no models with attention functions of their own
MAKES_FOLDERS = tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 48)


def blocks(path):
    text = (REPO / path).read_text(encoding="utf-8")
    return re.findall(r"^```(bash|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def execute(language, code, folder):
    command = ["bash", "-c", SHELL + code] if language == "bash" else [sys.executable, "-c", code]
    process = subprocess.run(
        command, cwd=folder, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.returncode == 0, f"{code}\n{process.stdout[-5000:]}"
    return process.stdout


def link(folder, *names):
    """Names of the repository's top level, as in the root of a clone."""
    for name in names:
        if not (folder / name).exists():
            (folder / name).symlink_to(REPO / name)


@pytest.fixture
def folder(text, tmp_path, shim_folder, monkeypatch):
    """What the READMEs take for given: text, the GLUE files, and the package."""
    monkeypatch.setitem(ENV, "SHIMS", shim_folder)
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text((text / f"{split}.txt").read_text())
    write_glue(tmp_path / "glue_data", ["CoLA", "SST-2", "STS-B"])
    if not INSTALLED:  # not next to fairseq, so the name must be a path
        link(tmp_path, "tupe_fairseq")
    return tmp_path


def test_readme(folder, monkeypatch):
    monkeypatch.setitem(ENV, "HF_HOME", str(folder / "hf"))
    state, _ = authors.their_checkpoint(max_positions=64)
    torch.save(state, folder / "checkpoint_best.pt")
    (folder / "dict.txt").write_text("\n".join(authors.WORDS) + "\n")
    (folder / "bpe-code").write_text(authors.CODES)
    write_gpt2(folder / "roberta.base")
    for name, place in {
        "theirs.pt": "roberta.base/model.pt", "theirs.txt": "roberta.base/dict.txt",
        "encoder.json": "encoder.json", "vocab.bpe": "vocab.bpe",
    }.items():  # fmt: skip
        (folder / "roberta.base" / name).rename(folder / place)
    outputs = []
    for language, code in blocks("README.md"):
        if code.startswith(ELSEWHERE) or ("my-model" in code and not MAKES_FOLDERS):
            continue
        outputs.append(execute(language, code, folder))
    assert (folder / "runs" / "submission" / "CoLA.tsv").exists()
    assert (folder / "back" / "model.pt").exists() == MAKES_FOLDERS
    assert (folder / "sst2" / "checkpoint_best.pt").exists()
    assert (folder / "tupe-runs" / "submission" / "CoLA.tsv").exists()
    assert (folder / "roberta-converted" / "model.pt").exists()
    assert "torch.Size([8, 100, 128])\ntorch.Size([2, 100, 100])" in outputs[-1]
    assert (folder / "tupe-from-roberta" / "model.pt").exists()
    assert len(outputs) == (15 if MAKES_FOLDERS else 12)


def test_readmes_of_pretraining_and_glue(folder):
    """One after the other, as a reader would: the one's checkpoint is what the other fine-tunes."""
    link(folder, "examples", "tupe_fairseq")
    one_process = "NODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1\n"
    outputs = []
    for language, code in blocks("examples/pretraining/README.md"):
        if code.startswith(ELSEWHERE):
            continue
        if code.startswith("torchrun"):  # which starts the script itself, past the shell's function
            code = one_process + code.rstrip() + " " + HYDRA_TINY
            code = code.replace("--nproc_per_node 8", "--nproc_per_node 1")
            code = code.replace("29500", str(free_port()))
        outputs.append(execute(language, code, folder))
    assert [("done training" in output) for output in outputs] == [False] + [True] * 4
    for language, code in blocks("examples/glue/README.md"):
        if code.startswith(ELSEWHERE):
            continue
        outputs.append(execute(language, code, folder))
    assert (folder / "runs" / "CoLA" / "results.md").exists()
    assert (folder / "cola" / "checkpoint_best.pt").exists()
    assert "done training" in outputs[-1]
    assert len(outputs) == 9


# each example in its own namespace
EXAMPLES = """
import json, sys
for code in json.load(sys.stdin):
    exec(code, {"__name__": "__main__"})
"""


def test_readme_of_positions(folder):
    link(folder, "examples", "tupe_fairseq")
    prepare = (
        "tupe-prepare-pretrain --input train.txt --valid-input valid.txt --output-dir data-bin"
    )
    execute("bash", prepare, folder)
    found = blocks("examples/positions/README.md")
    outputs = [execute(*block, folder) for block in found if block[0] == "bash"]
    assert [("done training" in output) for output in outputs[:2]] == [True] * 2
    assert (folder / "comparison" / "results.json").exists()
    assert list((folder / "figures").glob("**/*.png"))
    assert (folder / "figures-tupe-r" / "position_bias.png").exists()
    assert len(outputs) == 5

    examples = [code for language, code in found if language == "python"]
    process = subprocess.run(
        [sys.executable, "-c", EXAMPLES], input=json.dumps(examples), cwd=folder, env=ENV,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-5000:]
    assert all(f"{name} torch.Size([8, 100, 128])" in process.stdout for name in CATALOGUE)
    assert len(examples) == 7


@pytest.mark.parametrize("readme", ["README.md", "examples/positions/README.md"])
def test_every_position_encoding_has_its_line(readme):
    lines = re.findall(
        r"^\| `([a-z-]+)`", (REPO / readme).read_text(encoding="utf-8"), re.MULTILINE
    )
    # results of some of them may follow
    assert [name for name in dict.fromkeys(lines) if name in CATALOGUE] == list(CATALOGUE)


PAGES = [*REPO.glob("*.md"), *REPO.glob("examples/*/README.md"), *REPO.glob("scripts/*/*.md")]


def anchors(page):
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_and_scripts_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    for place, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
        target = page.parent / place if place else page
        assert target.exists(), place
        assert not anchor or anchor in anchors(target), f"{place}#{anchor}"
    for script in re.findall(r"^(?:python )?(scripts/\S+)", text, re.MULTILINE):
        assert (REPO / script).exists(), script
