"""The README's first command, cut down to a few updates by its own environment variable."""

import subprocess

import pytest

from helpers.running import ENV, REPO
from tupe_fairseq.data.tokenizer import Tokenizer


def quickstart(folder, venv):
    return subprocess.run(
        [str(REPO / "scripts" / "quickstart.sh")],
        cwd=folder.parent,
        env={**ENV, "QUICKSTART_SMOKE": "1", "QUICKSTART_DIR": str(folder), "VENV": str(venv)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def venv(shim_folder, tmp_path):
    """An environment whose commands start at once."""
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "bin").symlink_to(shim_folder)
    return tmp_path / "venv"


def test_every_step_and_a_second_run_that_skips_them(venv, tmp_path):
    folder = tmp_path / "run"
    first = quickstart(folder, venv)
    assert first.returncode == 0, first.stdout[-5000:]
    for command in ("tupe-prepare-pretrain --input", "fairseq-train", "fairseq-validate"):
        assert f"$ {command}" in first.stdout
    for word in ("unigram", "before", "after", "<mask>", "from_pretrained"):
        assert word in first.stdout
    for name in ("checkpoint_last.pt", "dict.txt", "sentencepiece.bpe.model"):
        assert (folder / "checkpoints" / name).exists()

    # the data are those of any model: GLUE can be prepared with them
    assert Tokenizer.load(str(folder / "data-bin")).max_positions == 64

    trained = (folder / "checkpoints" / "checkpoint_last.pt").stat().st_mtime_ns
    second = quickstart(folder, venv)
    assert second.returncode == 0, second.stdout[-5000:]
    assert "is already finished" in second.stdout
    assert "$ fairseq-" not in second.stdout and "$ python scripts/build" not in second.stdout
    assert (folder / "checkpoints" / "checkpoint_last.pt").stat().st_mtime_ns == trained


@pytest.mark.parametrize("name", ["a:b", "full"])
def test_a_folder_that_cannot_be_used(name, venv, tmp_path):
    folder = tmp_path / name
    if name == "full":
        folder.mkdir()
        (folder / "mine.txt").write_text("not to be lost")
    process = quickstart(folder, venv)
    assert process.returncode
    (line,) = [line for line in process.stdout.splitlines() if line.startswith("quickstart.sh: ")]
    assert f"QUICKSTART_DIR is {folder}" in line and "choose" in line
