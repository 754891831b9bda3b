"""The scripts of the pages run, and learn what they say."""

import subprocess
import sys

import pytest

from helpers.running import ENV, REPO
from tupe_fairseq.data.tokenizer import Tokenizer


def run(folder, *command, check=True, **env):
    done = subprocess.run(
        command, cwd=folder, env={**ENV, **env}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert not (check and done.returncode), done.stdout[-5000:]
    return done.stdout


def test_pytorch_only(tmp_path):
    output = run(tmp_path, sys.executable, REPO / "examples" / "pytorch_only.py")
    assert "step 200: loss 0.00" in output and "100% right" in output
    assert (tmp_path / "bias.png").stat().st_size > 10_000


def test_walkthrough(tmp_path):
    script = REPO / "examples" / "walkthrough.py"
    output = run(tmp_path, sys.executable, script, "2", HF_HOME=str(tmp_path / "hf"))
    assert "torch.Size([2, 8, 8]) heads, query, key" in output
    assert (tmp_path / "walkthrough" / "my-model" / "model.safetensors").exists()


def quickstart(folder, **options):
    """Cut down to a few updates by its own variable, in this environment."""
    env = {"QUICKSTART_SMOKE": "1", "QUICKSTART_DIR": str(folder), "VENV": sys.prefix}
    return run(folder.parent, REPO / "scripts" / "quickstart.sh", **env, **options)


def test_quickstart_and_a_second_run_that_skips_what_is_finished(tmp_path):
    folder = tmp_path / "run"
    first = quickstart(folder)
    for word in ("$ tupe-prepare-pretrain --input", "$ fairseq-validate", "before", "<mask>"):
        assert word in first
    checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
    # the data are those of any model: GLUE can be prepared with them
    assert Tokenizer.load(str(folder / "data-bin")).max_positions == 64
    trained = checkpoint.stat().st_mtime_ns
    second = quickstart(folder)
    assert "is already finished" in second and checkpoint.stat().st_mtime_ns == trained
    assert "$ fairseq-" not in second and "$ python scripts/build" not in second


@pytest.mark.parametrize("name", ["a:b", "full"])
def test_a_folder_that_quickstart_cannot_use(name, tmp_path):
    folder = tmp_path / name
    if name == "full":
        folder.mkdir()
        (folder / "mine.txt").write_text("not to be lost")
    assert f"quickstart.sh: QUICKSTART_DIR is {folder}" in quickstart(folder, check=False)
