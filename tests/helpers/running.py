"""Paths, and two ways to run a command: in this process, which is faster, or in its own."""

import contextlib
import importlib
import io
import logging
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

import tupe_fairseq
from tupe_fairseq.cli import main as cli
from tupe_fairseq.runs import process

REPO = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# the copy under test, which is in site-packages unless the install is editable
USER_DIR = tupe_fairseq.__path__[0]
PARENT = Path(USER_DIR).parent
#: as files of results have them
VERSIONS = {
    "tupe_fairseq": tupe_fairseq.__version__,
    "fairseq": importlib.import_module("fairseq").__version__,
    "torch": torch.__version__.partition("+")[0],
    "python": platform.python_version(),
}
ENV = {**os.environ, "PYTHONPATH": str(PARENT)}


def run_process(*command, check=True, env=None, cwd=None):
    """Run a console script of this environment, or a program, as a user does."""
    command = [str(word) for word in command]
    if (BIN / command[0]).exists():
        command[0] = str(BIN / command[0])
    process = subprocess.run(
        # python -c imports from the current folder first
        command, cwd=cwd or PARENT, env={**ENV, **(env or {})}, text=True, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return _checked(process) if check else process


def run_here(*command, check=True, cwd=None):
    """Run a command of ours or fairseq's in this process, with the result of a real process.

    An exception is raised; without ``check`` it is printed, as a process prints it.
    """
    command = [str(word) for word in command]
    run_program = _run_ours if command[0].startswith("tupe-") else _run_fairseq
    output, root, before = io.StringIO(), logging.root, os.getcwd()
    handlers, level = root.handlers[:], root.level
    os.chdir(cwd or before)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = run_program(command)
    except Exception:
        if check:
            raise
        code = 1
        output.write(traceback.format_exc())
    finally:  # undo the command's logging setup
        os.chdir(before)
        root.handlers[:] = handlers
        root.setLevel(level)
    process = subprocess.CompletedProcess(command, code, stdout=output.getvalue())
    return _checked(process) if check else process


def start_forked(log, *command):
    """Start a command in a fork, which need not import everything again; returns its id."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            done = run_here(*command, check=False)
            code = done.returncode
            log.write_text(done.stdout)
        os._exit(code)
    return child


def words_of(script):
    """The command line in a run's command.sh, as a list."""
    words = shlex.split(script.replace("\\\n", ""), comments=True)
    assert words[:2] == ["export", "OMP_NUM_THREADS=1"]
    return [Path(words[2]).name, *words[3:]]


def call_program(name, words):
    """Run a command such as "predict" in this process; returns its exit code and output."""
    process = run_here(f"tupe-{name}", *words, check=False)
    return process.returncode, process.stdout


def refused(name, *words):
    """Run a command that must end in one error and no traceback; returns its last line."""
    code, printed = call_program(name, words)
    assert code == 2 and printed.count("error: ") == 1 and "Traceback" not in printed, printed
    return printed.splitlines()[-1]


def _checked(process):
    if process.returncode:
        raise AssertionError(f"exit code {process.returncode}: {process.args}\n{process.stdout}")
    return process


def _run_ours(command):
    return cli.run(command[0].removeprefix("tupe-"), command[1:])


def _run_fairseq(command):
    from fairseq import checkpoint_utils

    module = command[0].removeprefix("fairseq-").replace("-", "_")
    main = importlib.import_module(f"fairseq_cli.{module}").cli_main
    vars(checkpoint_utils.save_checkpoint).pop("best", None)  # left by an earlier training
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(levelname)s | %(name)s | %(message)s"))
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.INFO)
    try:
        with mock.patch.object(sys, "argv", command):
            main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


@contextlib.contextmanager
def trainings_here():
    """Makes tupe-finetune and tupe-compare run their trainings in this process."""

    class Program:
        def __init__(self, command, env, **_):
            with mock.patch.dict(os.environ, {"TUPE_STUDY": env["TUPE_STUDY"]}):
                done = run_here(os.path.basename(command[0]), *command[1:], check=False)
            self.stdout, self.returncode = io.StringIO(done.stdout), done.returncode
            self.pid = os.getpid()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    with mock.patch.object(
        process, "subprocess", SimpleNamespace(PIPE=-1, STDOUT=-2, Popen=Program)
    ):
        yield


def interrupt(command, ready, number=signal.SIGINT, whole_group=False):
    """Start a command and send it a signal when it is ready; returns its exit code and output.

    ``ready`` is called with a function that counts its processes. None of them may survive.
    """
    process = subprocess.Popen(
        [str(BIN / command[0]), *map(str, command[1:])], env=ENV, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
        # background jobs of a shell ignore Ctrl-C, and so would their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while not ready(lambda: _running(process)):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert _running(process) == 0
    return process.returncode, output


def _running(process):
    """The number of running processes in its session."""
    listed = subprocess.run(["ps", "-s", str(process.pid), "-o", "stat="], capture_output=True)
    return sum(not stat.startswith(b"Z") for stat in listed.stdout.split())


def free_port():
    """A TCP port that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
