"""Every command and example of the READMEs runs, on a model cut down to a tiny size."""

import re
import subprocess
import sys

import authors
import pytest
import torch
from commands import SIZE
from conftest import BIN, ENV, REPO
from test_user_dir import INSTALLED

TINY = " ".join(map(str, SIZE)) + " --cpu --num-workers 0 --data-buffer-size 0"
# The commands themselves, with flags at the end that make them small; later flags win.
SHELL = f"""
set -e
export PATH="{BIN}:$PATH"
fairseq-train() {{ command fairseq-train "$@" {TINY} --max-update 2 --max-epoch 1; }}
fairseq-hydra-train() {{ command fairseq-hydra-train "$@" dataset.num_workers=0 \\
    dataset.data_buffer_size=0 optimization.max_update=2; }}
"""
# Run by test_quickstart.py, test_benchmark.py and continuous integration.
ELSEWHERE = (
    "scripts/quickstart.sh", "scripts/test.sh", "pip install ", "python scripts/benchmark.py",
    "python scripts/words_per_second.py",
)  # fmt: skip


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


@pytest.fixture
def folder(text, tmp_path):
    """What the README takes for given: text, an authors' checkpoint, and the package."""
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text((text / f"{split}.txt").read_text())
    if not INSTALLED:  # not beside fairseq, so the name must be a path
        (tmp_path / "tupe_fairseq").symlink_to(REPO / "tupe_fairseq")
    state, _ = authors.their_checkpoint()
    torch.save(state, tmp_path / "checkpoint_best.pt")
    (tmp_path / "dict.txt").write_text("\n".join(authors.WORDS) + "\n")
    return tmp_path


def binarize_sentences(folder, run):
    """sst2-bin, as the README's fine-tuning expects it."""
    for split in ("train", "valid"):
        lines = (folder / f"{split}.spm").read_text().splitlines()[:40]
        (folder / f"{split}.input0").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.label").write_text("0\n1\n" * (len(lines) // 2))
    for key, flags in (("input0", ["--srcdict", folder / "data-bin" / "dict.txt"]), ("label", [])):
        run(
            "fairseq-preprocess", "--only-source", *flags, "--trainpref", folder / f"train.{key}",
            "--validpref", folder / f"valid.{key}", "--destdir", folder / "sst2-bin" / key,
            "--workers", 1,
        )  # fmt: skip


def test_readme(folder, run):
    outputs = []
    for language, code in blocks("README.md"):
        if code.startswith(ELSEWHERE):
            command, *arguments = code.split()
            script = arguments[0] if command == "python" else command
            assert script == "pip" or (REPO / script).exists()
            continue
        if "fairseq-train sst2-bin" in code:
            binarize_sentences(folder, run)
        outputs.append(execute(language, code, folder))
    assert (folder / "sst2" / "checkpoint_best.pt").exists()
    assert (folder / "tupe-converted" / "model.pt").exists()
    assert "torch.Size([8, 100, 128])\ntorch.Size([2, 100, 100])" in outputs[-1]
    assert len(outputs) == 7


def test_pretraining_readme(data, tmp_path):
    for name in ("examples", "tupe_fairseq"):
        (tmp_path / name).symlink_to(REPO / name)
    (tmp_path / "data-bin").symlink_to(data)
    ((language, code),) = blocks("examples/pretraining/README.md")
    assert "done training" in execute(language, code, tmp_path)


def test_links_of_the_readmes_lead_somewhere():
    for readme in [REPO / "README.md", *REPO.glob("examples/*/README.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)", readme.read_text(encoding="utf-8")):
            assert (readme.parent / link).exists(), f"{readme}: {link}"
