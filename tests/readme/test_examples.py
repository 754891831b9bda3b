"""The example scripts run, and learn what they say."""

import subprocess
import sys

from helpers.cli import ENV, REPO


def run(folder, script, *words):
    command = [sys.executable, REPO / "examples" / script, *words]
    env = {**ENV, "HF_HOME": str(folder / "hf")}
    process = subprocess.run(command, cwd=folder, env=env, text=True, stdout=-1, stderr=-2)
    assert process.returncode == 0, process.stdout[-5000:]
    return process.stdout


def test_pytorch_only(tmp_path):
    output = run(tmp_path, "pytorch_only.py")
    assert "step 200: loss 0.00" in output and "100% right" in output
    assert (tmp_path / "bias.png").stat().st_size > 10_000


def test_walkthrough(tmp_path):
    output = run(tmp_path, "walkthrough.py", "2")
    assert "torch.Size([2, 8, 8]) heads, query, key" in output
    assert (tmp_path / "walkthrough" / "my-model" / "model.safetensors").exists()
