"""A training that is killed, and started again by the same command; scripts/soak.sh does more."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

import tupe_fairseq.require_fairseq  # noqa: F401  lets torch.load read what fairseq has written
from helpers.running import ENV
from helpers.training import PRETRAINING, assert_same_weights, losses, pretrain
from tupe_fairseq.files.lock import locked

FLAGS = ["--rel-pos", "--max-update", 6, "--save-interval-updates", 2, "--dropout", 0.1]
LAST = "checkpoint_last.pt"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no named pipes there")


def killed_amid(name, data, save_dir, shim_folder):
    """Kill the training when it has written the first bytes of a checkpoint; its output.

    The file is a pipe, which is too small for it, so that the training waits there.
    """
    os.makedirs(save_dir, exist_ok=True)
    pipe = save_dir / f"{name}.tmp"
    os.mkfifo(pipe)
    command = [f"{shim_folder}/fairseq-train", data, *PRETRAINING, "--save-dir", save_dir, *FLAGS]
    process = subprocess.Popen(
        [str(word) for word in command], env=ENV, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    reader, half, end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), b"", time.monotonic() + 240
    while not half:
        assert process.poll() is None and time.monotonic() < end, f"{pipe} was not written to"
        time.sleep(0.02)
        with contextlib.suppress(BlockingIOError):
            half = os.read(reader, 1000)
    process.kill()
    output, _ = process.communicate()  # until the training, which still waits, is gone
    os.close(reader)
    pipe.unlink()
    pipe.write_bytes(half)
    return subprocess.CompletedProcess(command, process.returncode, stdout=output)


@pytest.fixture(scope="module")
def unkilled(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unkilled")
    return folder, losses(pretrain(data, folder, *FLAGS))


def test_killed_and_started_again(data, unkilled, tmp_path, shim_folder):
    """Amid its first checkpoint, a later one, a copy; a copy is damaged; after the end."""
    folder, expected = unkilled
    runs = [
        killed_amid(name, data, tmp_path, shim_folder)
        for name in ("checkpoint_1_2.pt", "checkpoint_1_4.pt", LAST)
    ]
    made = [sorted(losses(run)) for run in runs]
    assert made == [[1, 2], [1, 2, 3, 4], [3, 4]]
    # as fairseq alone leaves it
    os.truncate(tmp_path / LAST, 1000)
    for _ in range(2):
        runs.append(pretrain(data, tmp_path, *FLAGS))
    assert f"{tmp_path / LAST} is not whole" in runs[3].stdout
    assert f"going on from {tmp_path / 'checkpoint_1_4.pt'}, after 4 updates" in runs[3].stdout
    assert sorted(losses(runs[3])) == [5, 6]
    assert "all 6 updates of --max-update 6 are made already" in runs[4].stdout
    for run in runs:
        assert losses(run).items() <= expected.items()
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(folder))
    assert_same_weights(tmp_path / LAST, folder / LAST)


def test_nothing_is_whole_and_another_training(data, tmp_path):
    (tmp_path / LAST).write_text("half")
    process = pretrain(data, tmp_path, *FLAGS, check=False)
    assert process.returncode and f"{tmp_path / LAST} is not whole" in process.stdout
    with locked(str(tmp_path)):
        process = pretrain(data, tmp_path, *FLAGS, check=False)
    assert process.returncode
    assert f"another training is using --save-dir {tmp_path}" in process.stdout
