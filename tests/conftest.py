"""What every test shares: where the material lies, and running the real commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

REPO = Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"
# Two threads of two processes on two cores spin against each other; and bit-identical results
# need equal thread counts.
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def shared():
    """The folder of goldens and corpora beside the project."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is absent: it holds the goldens and corpora of this test")
    return SHARED


def run(*command, cwd=None, check=True, env=None):
    """Run a console script of this environment (or python) and return the finished process."""
    command = [str(word) for word in command]
    if (BIN / command[0]).exists():
        command[0] = str(BIN / command[0])
    process = subprocess.run(
        command,
        cwd=cwd,
        env={**ENV, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    if check and process.returncode:
        raise AssertionError(f"exit code {process.returncode}: {command}\n{process.stdout[-6000:]}")
    return process


@pytest.fixture(scope="session", name="run")
def run_fixture():
    return run
