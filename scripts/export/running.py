"""Runs fairseq's commands and ours, and says which."""

import importlib
import multiprocessing
import os
import shlex
import sys
import tempfile

import tupe_fairseq

# the copy that runs this, installed or not
USER_DIR = tupe_fairseq.__path__[0]


def run(command, *words):
    """A console script, in a fork of this process, which saves the seconds of its imports.

    Args:
        command (str): ``fairseq-train``, ``tupe-export``, ...
    Raises:
        SystemExit: with what it printed, if it fails.
    """
    words = [str(word) for word in words]
    print("$", command, shlex.join(words), flush=True)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = multiprocessing.get_context("fork").Process(
            target=_main, args=(command, words, output)
        )
        process.start()
        process.join()
        output.seek(0)
        said = output.read()
    if process.exitcode:
        raise SystemExit(f"{said[-4000:]}\n{command} ended with {process.exitcode}")
    return said


def _main(command, words, output):
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output.fileno(), stream.fileno())
    kind, _, name = command.partition("-")
    package = "fairseq_cli" if kind == "fairseq" else "tupe_fairseq.commands"
    module = importlib.import_module(f"{package}.{name.replace('-', '_')}")
    sys.argv = [command, *words]
    (module.cli_main if kind == "fairseq" else module.main)()
