"""Following a program: its lines, its end, and the lock that it holds; without fairseq."""

import contextlib
import signal
import sys

import pytest

import tupe_fairseq.programs.train as running
from tupe_fairseq.files.lock import locked
from tupe_fairseq.programs.train import Diverged, train

WAIT = "import sys, time; print('begun', flush=True); time.sleep(60)"


def python(code):
    return [sys.executable, "-c", code]


def test_lines_that_are_not_utf8(tmp_path):
    code = r"import sys; sys.stdout.buffer.write(b'one\n\xff\xfe two\n\xc3\xa9\n')"
    lines = []
    train(python(code), str(tmp_path / "log"), lines.append)
    assert lines == ["one\n", "\ufffd\ufffd two\n", "\u00e9\n"]
    assert (tmp_path / "log").read_text("utf-8") == "".join(lines)


def test_the_log_is_added_to_and_errors_are_in_it(tmp_path):
    (tmp_path / "log").write_text("before\n")
    train(python("import sys; print('x', file=sys.stderr)"), str(tmp_path / "log"), len)
    assert (tmp_path / "log").read_text() == "before\nx\n"


def test_a_failure_has_the_end_of_the_log(tmp_path):
    code = "print(*range(30), sep='\\n'); raise SystemExit(3)"
    with pytest.raises(ValueError, match="ended with exit code 3") as stop:
        train(python(code), str(tmp_path / "log"), len)
    assert str(stop.value).endswith("\n" + "\n".join(map(str, range(10, 30))))


def test_divergence_is_told_from_failure(tmp_path):
    code = "print('FloatingPointError: gradients are Nan'); print('x'); raise SystemExit(1)"
    with pytest.raises(Diverged, match="^FloatingPointError: gradients are Nan$"):
        train(python(code), str(tmp_path / "log"), len)


def test_an_interruption_ends_the_program(tmp_path):
    processes = []

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(python(WAIT), str(tmp_path / "log"), interrupt, on_start=processes.append)
    # the second if a shell has started the tests in the background, where SIGINT is ignored
    assert processes[0].returncode in (-signal.SIGINT, -signal.SIGTERM)


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: print('interrupted', file=open(sys.argv[1], 'a')))
if sys.argv[2] == 'very':
    signal.signal(signal.SIGTERM, lambda *_: print('terminated', file=open(sys.argv[1], 'a')))
print('begun', flush=True)
[time.sleep(1) for _ in range(60)]
"""


@pytest.mark.parametrize("how, number", [("rather", signal.SIGTERM), ("very", signal.SIGKILL)])
def test_a_program_that_goes_on_is_ended(tmp_path, monkeypatch, how, number):
    """First it may end its own workers."""
    monkeypatch.setattr(running, "_PATIENCE", 0.2)
    processes = []

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        words = [*python(STUBBORN), str(tmp_path / "told"), how]
        train(words, str(tmp_path / "log"), interrupt, on_start=processes.append)
    assert processes[0].returncode == -number
    told = ["interrupted", "terminated"][: 2 if how == "very" else 1]
    assert (tmp_path / "told").read_text().split() == told


def test_the_environment_is_added_to(tmp_path):
    code = "import os; print(os.environ['MINE'], 'PATH' in os.environ)"
    train(python(code), str(tmp_path / "log"), len, env={"MINE": "7"})
    assert (tmp_path / "log").read_text() == "7 True\n"


def test_the_program_holds_the_lock_as_long_as_it_runs(tmp_path):
    """Also without the one who started it."""
    folder = str(tmp_path)
    stack = contextlib.ExitStack()
    lock = stack.enter_context(locked(folder))

    def let_go(line):
        stack.close()
        with pytest.raises(ValueError, match="another process is using"), locked(folder):
            pass
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(python(WAIT), str(tmp_path / "log"), let_go, lock=lock)
    with locked(folder):  # the program has ended, too
        pass
