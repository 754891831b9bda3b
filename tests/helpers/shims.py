"""Console scripts for shells and other programs that need not import torch and fairseq first.

As :mod:`helpers.forked`, for commands that this process does not start itself: a folder for the
front of PATH holds a small program under the name of each console script.  It asks a server for a
fork that runs the script, with the program's own files, folder, environment and signals.
"""

import array
import contextlib
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

_CLIENT = """#!{python} -IS
import array, json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
files = array.array("i", [0, 1, 2])
server.sendmsg([b"%10d" % len(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
server.sendall(request)
answers = server.makefile()
fork = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(fork, number))
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def start(folder, scripts):
    """Write the programs into a folder, and start their server.

    Args:
        folder (Path): a new folder with a short path, as sockets need.
        scripts (Path): where the console scripts are.
    Returns:
        subprocess.Popen: the server; it ends when its standard input is closed.
    """
    address = str(folder / "socket")
    for script in [*scripts.glob("fairseq-*"), *scripts.glob("tupe-*")]:
        program = folder / script.name
        program.write_text(_CLIENT.format(python=sys.executable, address=address))
        program.chmod(0o755)
    # for scripts that take the folder for that of an environment
    (folder / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (folder / "python").chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address, str(scripts)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    # after what imports may say
    assert any(line == b"ready\n" for line in server.stdout)
    return server


def _serve(address, scripts):
    importlib.import_module("fairseq_cli.train")
    with contextlib.suppress(ImportError):  # torch 1.13 has none
        importlib.import_module("torch._dynamo")

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # of this file's own start
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([listener, 0], [], [])
            if 0 in ready:
                return
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(connection, scripts)
                os._exit(0)
            connection.close()


def _answer(connection, scripts):
    """Run one script in a fork; tell its process and its exit code."""
    length, ancillary, _, _ = connection.recvmsg(10, socket.CMSG_SPACE(12))
    files = array.array("i", ancillary[0][2])
    with connection.makefile("rb") as stream:
        argv, cwd, environment = json.loads(stream.read(int(length)))
    fork = os.fork()
    if not fork:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [os.path.join(scripts, os.path.basename(argv[0])), *argv[1:]]
        # ends as the script does: exit code, messages, files flushed
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    for file in files:
        os.close(file)
    connection.sendall(b"%d\n" % fork)
    _, status = os.waitpid(fork, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    connection.sendall(b"%d\n" % code)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
