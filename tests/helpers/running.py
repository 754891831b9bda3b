"""Paths, and running the real commands, in a separate process or in this one."""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import tupe_fairseq
from helpers.forked import run_forked
from helpers.silence import no_foreign_lines, no_warnings
from tupe_fairseq.cli import main as cli

REPO = Path(__file__).resolve().parents[2]
SHARED = REPO.parent / "shared"
BIN = Path(sys.executable).parent
# the copy under test, which is in site-packages unless the install is editable
USER_DIR = tupe_fairseq.__path__[0]
INSTALLED = "site-packages" in USER_DIR
ENV = dict(os.environ)


def run(*command, cwd=None, check=True, env=None):
    """Run a console script of this environment, or a program, and return the finished process."""
    command = [str(word) for word in command]
    is_program = command[0] == sys.executable and command[1].endswith(".py")
    is_script = command[0].startswith(("fairseq-", "tupe-"))
    if (BIN / command[0]).exists():
        command[0] = str(BIN / command[0])
    if (is_script or is_program) and env is None:
        process = run_forked(command[1:] if is_program else command, cwd)
    else:
        process = subprocess.run(
            command, cwd=cwd, env={**ENV, **(env or {})}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=600,
        )  # fmt: skip
    if str(command[0]).startswith(f"{BIN}{os.sep}tupe-"):
        no_foreign_lines(process.stdout)
    if check and process.returncode:
        raise AssertionError(f"exit code {process.returncode}: {command}\n{process.stdout[-6000:]}")
    return process


def call_program(main, words, is_silent=True):
    """Run a command ("predict") or a main in this process, which saves its start.

    Returns its exit code and output.

    What other libraries have to say is a failure, unless it is a program of fairseq's.
    """
    output, code = io.StringIO(), 0
    handlers, level = logging.root.handlers[:], logging.root.level
    quietly = no_warnings() if is_silent else contextlib.nullcontext()
    with quietly, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            words = [str(word) for word in words]
            code = (cli.run(main, words) if isinstance(main, str) else main(words)) or 0
        except SystemExit as stop:
            code = stop.code
        finally:  # the command sets up logging for itself
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
    if is_silent:
        no_foreign_lines(output.getvalue())
    return code, output.getvalue()


def interrupt(command, log, text="", timeout=240, scripts=BIN):
    """Start a command and interrupt it, but not what it has started, when a log has a text.

    Args:
        scripts (Path): the folder of the command.
    Returns:
        tuple: the exit code and what was printed.
    """
    process = subprocess.Popen(
        [str(Path(scripts) / command[0]), *map(str, command[1:])], env=ENV, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
        # a background job of a shell ignores it, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    end = time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < end:
        if log.exists() and log.stat().st_size and text in log.read_text(errors="replace"):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=timeout)
    return process.returncode, output
