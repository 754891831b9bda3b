"""The scripts of the pages run, and learn what they say."""

import runpy
import shutil
import subprocess
import sys

import pytest

from helpers.running import ENV, REPO, USER_DIR, run_here, run_process
from tupe_fairseq.data.tokenizer import Tokenizer


def test_pytorch_only(tmp_path):
    script = REPO / "examples" / "pytorch_only.py"
    output = run_process(sys.executable, script, cwd=tmp_path).stdout
    assert "step 200: loss 0.00" in output and "100% right" in output
    assert (tmp_path / "bias.png").stat().st_size > 10_000


def test_walkthrough(tmp_path, monkeypatch, capsys):
    """In this process, as are fairseq's commands and ours that it starts."""
    real = subprocess.run

    def here(words, **options):
        is_program = words[0].startswith(("fairseq-", "tupe-"))
        return run_here(*words) if is_program else real(words, **options)

    for name, target in (("scripts", REPO / "scripts"), ("tupe_fairseq", USER_DIR)):
        (tmp_path / name).symlink_to(target)  # two copies would not fit in a process
    (tmp_path / "examples").mkdir()
    script = str(shutil.copy(REPO / "examples" / "walkthrough.py", tmp_path / "examples"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("PATH", ENV["PATH"])  # which it changes
    monkeypatch.setattr(sys, "argv", [script, "2"])
    monkeypatch.setattr(subprocess, "run", here)
    runpy.run_path(script, run_name="__main__")
    assert "torch.Size([2, 8, 8]) heads, query, key" in capsys.readouterr().out
    assert (tmp_path / "walkthrough" / "my-model" / "model.safetensors").exists()


def quickstart(folder, **options):
    """Cut down to a few updates by its own variable, in this environment."""
    env = {"QUICKSTART_SMOKE": "1", "QUICKSTART_DIR": str(folder), "VENV": sys.prefix}
    script = REPO / "scripts" / "quickstart.sh"
    return run_process(script, cwd=folder.parent, env=env, **options).stdout


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
