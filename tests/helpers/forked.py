"""Runs a console script in a separate process that need not import torch and fairseq first.

That import takes longer than most tests.  Python's fork server does it once; each command is a fork
of it.  Our package is not imported ahead: every command finds it as it would alone.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["fairseq_cli.train", "torch._dynamo", "helpers.composed", "helpers.frozen"]
)


def run_forked(command, cwd=None, timeout=600):
    """As ``subprocess.run`` with stderr in stdout, for a console script written in Python."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "output")
        process = _SERVER.Process(target=_script, args=(command, cwd or os.getcwd(), output))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout)
        with open(output, encoding="utf-8") as written:
            return subprocess.CompletedProcess(command, process.exitcode, stdout=written.read())


def _script(command, cwd, output):
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(cwd)
    sys.argv = command
    # the folders of tests, which pytest has put there, are nowhere when a script starts
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [path for path in sys.path if not path.startswith(tests)]
    sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))  # as Python does
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as stop:
        if stop.code is not None:  # multiprocessing of Python 3.8 takes it for an error
            raise
    finally:  # which the fork's own end would leave out
        atexit._run_exitfuncs()
