"""Paths, and running commands: in this process, which saves their start, or as a user does."""

import contextlib
import importlib
import io
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import tupe_fairseq
from tupe_fairseq.cli import main as cli
from tupe_fairseq.fairseq_runs import train

REPO = Path(__file__).resolve().parents[2]
SHARED = REPO.parent / "shared"
BIN = Path(sys.executable).parent
# the copy under test, which is in site-packages unless the install is editable
USER_DIR = tupe_fairseq.__path__[0]
ENV = dict(os.environ)


def run(*command, cwd=None, check=True, env=None):
    """Run a program and return the finished process; fairseq's and ours in this process."""
    command = [str(word) for word in command]
    if command[0].startswith(("fairseq-", "tupe-")) and env is None:
        process = _run_here(command, cwd)
    else:
        process = subprocess.run(
            command, cwd=cwd, env={**ENV, **(env or {})}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=600,
        )  # fmt: skip
    if check and process.returncode:
        raise AssertionError(f"exit code {process.returncode}: {command}\n{process.stdout[-6000:]}")
    return process


def _run_here(command, cwd=None):
    before = os.getcwd()
    os.chdir(cwd or before)
    try:
        if command[0].startswith("tupe-"):
            code, output = call_program(command[0].removeprefix("tupe-"), command[1:])
        else:
            code, output = _run_fairseq(command)
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(command, code, stdout=output)


def _run_fairseq(command):
    """What fairseq logs and prints, as in a process of its own."""
    from fairseq import checkpoint_utils

    module = command[0].removeprefix("fairseq-").replace("-", "_")
    main = importlib.import_module(f"fairseq_cli.{module}").cli_main
    vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of an earlier training
    output, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s | %(name)s | %(message)s"))
    handlers, level, argv = root.handlers[:], root.level, sys.argv
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    sys.argv = command
    code = 0
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception:
        output.write(traceback.format_exc())
        code = 1
    finally:
        sys.argv = argv
        root.handlers[:] = handlers
        root.setLevel(level)
    return code or 0, output.getvalue()


def call_program(name, words):
    """Run a command, such as "predict", in this process; its exit code and output."""
    output, handlers, level = io.StringIO(), logging.root.handlers[:], logging.root.level
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = cli.run(name, [str(word) for word in words])
        finally:  # the command sets up logging for itself
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
    return code, output.getvalue()


@contextlib.contextmanager
def trainings_here():
    """What tupe-finetune and tupe-compare start runs in this process, once it is asked for."""

    class Program:
        def __init__(self, command, **_):
            done = _run_here([os.path.basename(command[0]), *command[1:]])
            self.stdout, self.returncode = io.StringIO(done.stdout), done.returncode
            self.pid = os.getpid()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    before = train.subprocess
    train.subprocess = SimpleNamespace(PIPE=-1, STDOUT=-2, Popen=Program)
    try:
        yield
    finally:
        train.subprocess = before


def interrupt(command, ready, number=signal.SIGINT, whole_group=False):
    """Start a command and send it a signal when it is ready; its exit code and what was printed.

    ``ready`` is called with the number of processes that run. None of them may be left then.
    """
    process = subprocess.Popen(
        [str(BIN / command[0]), *map(str, command[1:])], env=ENV, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
        # a background job of a shell ignores Ctrl-C, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while not ready(_running(process)):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert _running(process) == 0
    return process.returncode, output


def _running(process):
    """How many processes of its session run."""
    listed = subprocess.run(["ps", "-s", str(process.pid), "-o", "stat="], capture_output=True)
    return sum(not stat.startswith(b"Z") for stat in listed.stdout.split())
