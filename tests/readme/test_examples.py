"""The example scripts run, and learn what they say."""

import subprocess
import sys

from helpers.running import ENV, REPO


def test_pytorch_only(tmp_path):
    command = [sys.executable, REPO / "examples" / "pytorch_only.py"]
    output = subprocess.run(command, cwd=tmp_path, env=ENV, text=True, stdout=-1, check=True).stdout
    assert "step 200: loss 0.00" in output and "100% right" in output
    assert (tmp_path / "bias.png").stat().st_size > 10_000
