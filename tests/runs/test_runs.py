"""Following a program: its lines, its end and the lock that it holds; and many of them at once."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from tupe_fairseq.files import locked
from tupe_fairseq.runs import options
from tupe_fairseq.runs import process as running
from tupe_fairseq.runs.process import Diverged, train
from tupe_fairseq.runs.study import Study

WAIT = "import time; print('started', flush=True); time.sleep(60)"


def python(code):
    return [sys.executable, "-c", code]


def test_lines_reach_the_log_and_the_caller(tmp_path):
    (tmp_path / "log").write_text("before\n")
    code = r"import os, sys; sys.stderr.write('one\n'); sys.stderr.flush();"
    code += (
        r"sys.stdout.buffer.write(b'\xff two\n'); print(os.environ['MINE'], 'PATH' in os.environ)"
    )
    lines = []
    train(python(code), str(tmp_path / "log"), lines.append, env={"MINE": "7"})
    assert lines == ["one\n", "\ufffd two\n", "7 True\n"]
    assert (tmp_path / "log").read_text("utf-8") == "before\n" + "".join(lines)


def test_failure_and_divergence(tmp_path):
    code = "print(*range(30), sep='\\n'); raise SystemExit(3)"
    with pytest.raises(ValueError, match="ended with exit code 3") as stop:
        train(python(code), str(tmp_path / "log"))
    assert str(stop.value).endswith("\n" + "\n".join(map(str, range(10, 30))))
    code = "print('FloatingPointError: gradients are Nan'); print('x'); raise SystemExit(1)"
    with pytest.raises(Diverged, match="^FloatingPointError: gradients are Nan$"):
        train(python(code), str(tmp_path / "log"))


STUBBORN = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {WAIT}"
VERY = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STUBBORN}"


@pytest.mark.parametrize(
    "code, number", [(WAIT, signal.SIGINT), (STUBBORN, signal.SIGTERM), (VERY, signal.SIGKILL)]
)
def test_an_interruption_ends_the_program(tmp_path, monkeypatch, code, number):
    monkeypatch.setattr(running, "_PATIENCE", 0.5 if number != signal.SIGINT else 5)
    processes = []

    def interrupt(line):
        processes.extend(running._running)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            train(python(code), str(tmp_path / "log"), interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert processes[0].returncode == -number


def test_the_program_holds_the_lock_as_long_as_it_runs(tmp_path):
    """Even after the process that started it has released the lock."""
    stack = contextlib.ExitStack()
    lock = stack.enter_context(locked(str(tmp_path)))

    def let_go(line):
        stack.close()
        with pytest.raises(ValueError, match="is at work in"), locked(str(tmp_path)):
            pass
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(python(WAIT), str(tmp_path / "log"), let_go, lock=lock)
    with locked(str(tmp_path)):
        pass


def test_an_error_of_the_work_is_not_the_lock_s(tmp_path):
    """Such as a full pipe, which standard output may be."""
    with pytest.raises(BlockingIOError), locked(str(tmp_path)):
        raise BlockingIOError
    assert not list(tmp_path.iterdir())


START = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tupe_fairseq.runs.process import train
command, log, pipe = [sys.executable, "-c", sys.argv[1]], sys.argv[2], int(sys.argv[3])
ThreadPoolExecutor().submit(train, command, log, lock=pipe).result()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do it")
def test_it_ends_with_its_parent(tmp_path):
    """Even if the parent is killed, and the program was started by a thread."""
    ours, theirs = os.pipe()
    log = tmp_path / "log"
    parent = subprocess.Popen(python(START) + [WAIT, str(log), str(theirs)], pass_fds=[theirs])
    os.close(theirs)
    deadline = time.monotonic() + 60
    while not log.exists() or not log.stat().st_size:
        assert parent.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    assert select.select([ours], [], [], 0.2)[0] == []  # the child is alive and holds the pipe
    parent.kill()
    parent.wait()
    assert select.select([ours], [], [], 20)[0] == [ours] and os.read(ours, 1) == b""
    os.close(ours)


class Task:
    """A run whose work is a function; ``of`` makes a study of some."""

    def __init__(self, number, work, options):
        self.number, self.work, self.options, self.updates = number, work, options, 5

    def result(self):
        return {} if self.number == 0 else None

    def train_and_score(self, slot):
        return self.work(self.number, slot)

    @classmethod
    def study(cls, work, numbers, devices=("cpu",), parallel=None):
        options = SimpleNamespace(devices=devices, parallel=parallel)
        return Study("unused", [cls(number, work, options) for number in numbers])


def test_runs_share_the_devices(caplog):
    both, results, devices = threading.Barrier(2, timeout=20), {}, []

    def work(number, slot):
        devices.append(slot.device)
        both.wait()  # two at a time
        slot.on_updates(5)
        return 10 * number

    caplog.set_level("INFO")
    study = Task.study(work, [1, 2, 0, 4, 5], ["cuda:4", "cuda:7"])  # 0 is finished
    study.train_all(study.runs, lambda run, result: results.update({run.number: result}))
    assert results == {1: 10, 2: 20, 4: 40, 5: 50} and not study.failed
    assert set(devices[:2]) == {"cuda:4", "cuda:7"}
    left = [text for text in caplog.messages if text.endswith(" runs left, about 1 min")]
    assert [int(text.split()[0]) for text in left] == [3, 2, 1]


def test_an_interruption_ends_all_runs_of_a_study_and_a_failure_none(tmp_path):
    started, made = threading.Event(), []

    def work(number, slot):
        made.append(number)
        if number == 2:
            train(python(WAIT), str(tmp_path / "log"), lambda line: started.set())
        if number == 3:
            started.wait(20)
            raise KeyboardInterrupt
        raise ValueError("run 1")

    begin = time.monotonic()
    study = Task.study(work, [1, 2, 3, 4], parallel=2)
    with pytest.raises(KeyboardInterrupt):
        study.train_all(study.runs, None)
    assert made == [1, 2, 3] and time.monotonic() - begin < 30
    study = Task.study(work, [1, 4])
    study.train_all(study.runs, None)
    assert [*study.failed] == study.runs


def test_failed_runs_are_listed_with_the_reason(caplog):
    study = Task.study(None, [1])
    study.exit_if_failed()
    study.failed = {1: ValueError("no end; the end of log:\nx\nKeyError: 5"), 2: MemoryError()}
    with pytest.raises(SystemExit, match="^1$"):
        study.exit_if_failed()
    listed = caplog.messages[0].splitlines()[1:]
    assert listed == ["  1: no end; the end of log: KeyError: 5", "  2: MemoryError"]


def test_runs_side_by_side_share_the_cores(monkeypatch):
    monkeypatch.setattr(options, "cores", lambda: 8)
    for number, threads in (("", 4), ("3", 3)):
        monkeypatch.setenv("OMP_NUM_THREADS", number)
        assert options.default_threads(2) == threads
