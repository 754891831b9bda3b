"""Work in other processes: interrupted at the worst moment, killed, failing."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tupe_fairseq.text import parallel
from tupe_fairseq.text.parallel import in_child, ordered_map

# a hook for each fork of this process; hooks cannot be removed again
_at_next_fork = []
os.register_at_fork(after_in_parent=lambda: _at_next_fork and _at_next_fork.pop()())


@pytest.fixture(autouse=True)
def _obeys():
    """As in a shell; what runs in the background is started to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def double(number):
    return 2 * number


def fail(text):
    raise ValueError(text)


def kill_myself(how=signal.SIGKILL):
    os.kill(os.getpid(), how)


@pytest.mark.parametrize(
    "work",
    [
        lambda: in_child(double, 2, killed=""),
        lambda: list(ordered_map(double, range(3), 2)),
    ],
    ids=["in_child", "ordered_map"],
)
def test_an_interruption_during_a_fork_is_not_lost(work):
    _at_next_fork.append(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    work()  # and no lock is left locked


STOPPING_EARLY = """
import signal, sys
sys.path.append(sys.argv[1])
from parallel import ordered_map

def double(number):
    return 2 * number

for number in range(20):
    signal.setitimer(signal.ITIMER_REAL, 60)  # for each: a slow machine hangs none
    found = ordered_map(double, range(50), 3)
    assert [next(found) for _ in range(number % 7)] == [2 * i for i in range(number % 7)]
    found.close()
print("all stopped")
"""


def test_a_caller_that_stops_early_does_not_wait_for_ever():
    """In a process that holds this one module: a fork of one that holds torch takes 20 ms."""
    command = [sys.executable, "-c", STOPPING_EARLY, os.path.dirname(parallel.__file__)]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # the alarm ends it
    assert process.returncode == 0 and process.stdout == "all stopped\n", process


@pytest.mark.parametrize(
    "function, args, error, message",
    [
        (fail, ["why"], ValueError, "^why$"),
        (kill_myself, [], OSError, "was killed, perhaps.*use less$"),
        (kill_myself, [signal.SIGTRAP], OSError, r"crashed \(SIGTRAP\); use less$"),
        (os._exit, [3], OSError, "ended with exit code 3$"),
        (os.strerror, ["x"], ValueError, "^TypeError: "),
    ],
    ids=["fails", "killed", "crashes", "ends", "has another error"],
)
def test_one_that_fails_says_why(function, args, error, message):
    with pytest.raises(error, match=message):
        in_child(function, *args, killed="use less")


def test_an_interruption_ends_the_child():
    # not at once: an interruption within a fork would be lost, and leave logging locked
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_child(time.sleep, 60, killed="")
    assert time.monotonic() - begin < 30
