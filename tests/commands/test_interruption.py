"""Ctrl-C and SIGTERM: one line, an exit code, no child left, whatever a command is doing."""

import argparse
import os
import signal
import subprocess
import sys
import time

import pytest

from helpers.running import ENV, call_program
from tupe_fairseq.commands.program import run_program

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# programs without torch, in which a command waits
BEGINNING = """
import argparse, logging, os, signal, sys, time
from tupe_fairseq.commands import interruption
from tupe_fairseq.commands.program import run_program

def begun(number=0):
    os.write(1, b"begun\\n")  # at once, whichever of several does
    time.sleep(60)

"""
WAITING = {
    "alone": "work = begun",
    # as Python does with __del__, and what is called after a fork
    "an exception that is lost": """
interruption.PATIENCE = 0.3

class Lost:
    def __del__(self):
        begun()

def work(args):
    Lost()
    time.sleep(60)
""",
    # as a library can whose import was interrupted; signals mean nothing to Python by then
    "what hangs as Python ends": """
interruption.PATIENCE = 0.3

class Hanging:
    def __del__(self, sleep=time.sleep):
        sleep(60)

hanging, work = Hanging(), begun
""",
}
END = "\nrun_program(argparse.ArgumentParser('tupe-x'), work, resumes=True)\n"


def obeying():
    """Before the program: a background job of a shell is started to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def restored_signals():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def started(words):
    return subprocess.Popen(
        [sys.executable, *words], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, preexec_fn=obeying,
    )  # fmt: skip


def ended(process, number, to_group):
    """Send a signal: the exit code, what was written to stderr, and that no child is left."""
    os.killpg(process.pid, number) if to_group else process.send_signal(number)
    begin = time.monotonic()
    process.wait(timeout=60)
    _, errors = process.communicate(timeout=60)  # when nobody holds its stderr any more
    # of busy machines; alone it is less than 0.5 s, or interruption.PATIENCE
    assert time.monotonic() - begin < 20
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.1)
    return process.returncode, errors


@pytest.mark.parametrize(
    "number, to_group",
    [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)],
    ids=["in the terminal", "interrupted", "terminated"],
)
@pytest.mark.parametrize("work", WAITING)
def test_one_line_and_no_child(work, number, to_group):
    process = started(["-c", BEGINNING + WAITING[work] + END])
    assert process.stdout.readline() == "begun\n"
    code, errors = ended(process, number, to_group)
    assert code == 128 + number
    lines = [line for line in errors.splitlines(keepends=True) if line.startswith("tupe-x")]
    assert lines == [f"tupe-x: {SIGNALS[number]}; run it again to go on\n"]
    # of a lost exception Python itself says more
    assert errors == lines[0] or work == "an exception that is lost"


def test_a_command_that_is_to_ignore_ctrl_c():
    """As a shell starts it in the background."""
    code = "def work(args): signal.raise_signal(signal.SIGINT); print('done')"
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    process = started(["-c", ignoring + BEGINNING + code + END])
    assert process.communicate(timeout=60) == ("done\n", "") and process.returncode == 0


@pytest.mark.parametrize("number", SIGNALS, ids=SIGNALS.get)
@pytest.mark.parametrize("error", [None, OSError("a worker was killed"), RuntimeError("odd")])
def test_what_fails_after_a_signal(number, error, restored_signals):
    """A message about what the signal has broken would only hide it."""

    def work(args):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if error is None:
                raise
            raise error from None

    obeying()
    before = [signal.getsignal(n) for n in (*SIGNALS, signal.SIGALRM)]
    program = argparse.ArgumentParser("tupe-x")
    code, printed = call_program(lambda words: run_program(program, work, words), [])
    assert (code, printed) == (128 + number, f"tupe-x: {SIGNALS[number]}\n")
    # a caller in the same process gets its signals back, and no alarm
    assert before == [signal.getsignal(n) for n in (*SIGNALS, signal.SIGALRM)]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
