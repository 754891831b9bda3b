"""Ctrl-C and SIGTERM: one line, the exit code of a shell, and no child left."""

import os
import signal
import subprocess
import sys
import time

import pytest

from helpers.running import BIN, ENV
from tupe_fairseq.files import locked

SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]


def start(words):
    return subprocess.Popen(
        [str(word) for word in words], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
        # a background job of a shell ignores Ctrl-C, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def wait_for(condition, process, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def of_session(process):
    """Processes that it has started, and their children, that still run."""
    listed = subprocess.run(["ps", "-e", "-o", "sid=,stat="], capture_output=True, text=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [row for row in rows if row[0] == str(process.pid) and not row[1].startswith("Z")]


@pytest.mark.parametrize("number, code, word", SIGNALS)
def test_a_comparison_ends_with_its_trainings(number, code, word, data, tmp_path):
    process = start([
        BIN / "tupe-compare", data, "--output-dir", tmp_path, "--schemes", "learned; tupe",
        "--updates", 10**6, "--batch-size", 2, "--tokens-per-sample", 64, "--seeds", 1, "--cpu",
        "--parallel", 2, "--threads", 1,
    ])  # fmt: skip
    folders = [tmp_path / "tupe_roberta_tiny" / f"{name}-seed1" for name in ("learned", "tupe")]
    logs = [folder / "train.log" for folder in folders]
    wait_for(lambda: all(x.exists() and "Start iterating" in x.read_text() for x in logs), process)
    process.send_signal(number)  # to the command alone
    text, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert text.splitlines()[-1] == f"tupe-compare: {word}" and "Traceback" not in text
    assert of_session(process) == []
    with locked(str(tmp_path)):
        pass


@pytest.mark.parametrize("number, code, word", SIGNALS)
def test_workers_end_with_their_command(number, code, word, tmp_path):
    line = " ".join(["one", "two", "three", "four"] * 5)
    (tmp_path / "text.txt").write_text("".join(f"{line} {n}.\n" for n in range(400_000)))
    process = start([
        BIN / "tupe-prepare-pretrain", "--input", tmp_path / "text.txt", "--output-dir",
        tmp_path / "out", "--workers", 2, "--split-sentences",
    ])  # fmt: skip
    wait_for(lambda: len(of_session(process)) > 2, process)
    os.killpg(process.pid, number)  # as a terminal does, or a scheduler
    text, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert text.splitlines()[-1].startswith(f"tupe-prepare-pretrain: {word}")
    assert of_session(process) == []  # a worker that is just starting may print a traceback


def test_interrupted_alone():
    code = "import os, signal, sys; from tupe_fairseq.cli import main, options\n"
    code += "options.model_flags = lambda arch: os.kill(os.getpid(), signal.SIGINT)\n"
    code += "sys.argv = ['tupe-options']; main.main()"
    process = start([sys.executable, "-c", code])
    text, _ = process.communicate(timeout=60)
    assert (process.returncode, text) == (130, "tupe-options: interrupted\n")
