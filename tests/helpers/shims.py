"""Console scripts, and a Python, for shells and other programs that need not import torch and
fairseq first.

For commands that other programs start: a folder for the
front of PATH holds a small program under the name of each console script.  It asks a server for a
fork that runs the script, with the program's own files, folder, environment and signals; the fork
is killed with the program.  What the fork itself starts beside its own Python is such a program,
too.  Its memory is the fork's, not the program's.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

try:
    from helpers.shared_server import end_if_unused, shared_server
except ImportError:  # in a server, which is started as a file
    from shared_server import end_if_unused, shared_server

_CLIENT = """#!{python} -IS
import array, json, os, signal, socket, sys
{first}
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

_NAMES = ("fairseq-", "tupe-", "torchrun")
# what each server imports
_FAIRSEQ = ("fairseq_cli.train", "torch._dynamo", "matplotlib.backends.backend_agg")

# ``python -c CODE``, ``-m MODULE`` and ``FILE``, of which -I differs only by PYTHONPATH; others,
# and one that is handed files, such as a worker of multiprocessing, get the real Python
_PYTHON = """
def is_open(file):
    try:
        os.fstat(file)
    except OSError:
        return False
    return True

words = sys.argv[2:] if sys.argv[1:2] == ["-I"] else sys.argv[1:]
isolated = words != sys.argv[1:]
served = words and (words[0] in ("-c", "-m") or not words[0].startswith("-"))
if not served or isolated and "PYTHONPATH" in os.environ or any(map(is_open, range(3, 64))):
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def serving(run_folder, scripts):
    """The folder of the programs, while their server runs.

    Args:
        run_folder (Path): of this run of pytest.
        scripts (Path): where the console scripts are.
    """
    place = run_folder / "fairseq-server"
    names = [script.name for script in scripts.iterdir() if script.name.startswith(_NAMES)]
    return shared_server(place, lambda folder, stdin: _start(folder, scripts, names, place, stdin))


def _start(folder, scripts, names, place, stdin):
    address = str(folder / "socket")
    for name in ["python", *names]:
        first = _PYTHON if name == "python" else ""
        program = folder / name
        program.write_text(_CLIENT.format(python=sys.executable, address=address, first=first))
        program.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address, str(scripts), str(place)], stdin=stdin,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    # after what imports may say
    assert any(line == b"ready\n" for line in server.stdout)


def _serve(address, scripts, place):
    gc.disable()
    for name in _FAIRSEQ:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("multiprocessing.spawn")  # remembers the real Python, for its workers
    sys.executable = os.path.join(os.path.dirname(address), "python")
    gc.collect()
    gc.enable()
    gc.freeze()  # what is imported stays, so forks need not look through it, nor copy it

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # which a background job of a shell ignores
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # of this file's own start
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([listener, 0], [], [])
            if 0 in ready:
                end_if_unused(place, os.path.dirname(address))
            if listener not in ready:
                continue
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
        # which a server started in the background of a shell ignores
        signal.signal(signal.SIGINT, signal.default_int_handler)
        is_python = os.path.basename(argv[0]) == "python"
        script = os.path.join(scripts, os.path.basename(argv[0]))
        _end(_exit_code(_python if is_python else _run_file, [script, *argv[1:]]))
    for file in files:
        os.close(file)
    connection.sendall(b"%d\n" % fork)
    over = threading.Event()
    threading.Thread(target=_end_with, args=(connection, fork, over), daemon=True).start()
    _, status = os.waitpid(fork, 0)
    over.set()
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    with contextlib.suppress(BrokenPipeError):  # the program was killed
        connection.sendall(b"%d\n" % code)


def _end_with(connection, fork, over):
    """Kill the fork if its program is killed, which alone closes the connection before."""
    if not connection.recv(1) and not over.is_set():
        os.kill(fork, signal.SIGKILL)


def _exit_code(call, argv):
    """What Python makes of the end of a program, with its message."""
    try:
        call(argv)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _end(code):
    """End as Python does, but leave all that was imported to the system: that takes seconds."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _run_file(argv):
    sys.argv, path = argv, os.path.abspath(argv[0])
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")


def _python(argv):
    """What Python does with ``[-I] -c CODE``, ``[-I] -m MODULE`` or ``FILE``."""
    is_isolated = argv[1] == "-I"
    words = argv[2:] if is_isolated else argv[1:]
    if words[0] not in ("-c", "-m"):
        return _run_file(words)
    sys.argv = ["-c", *words[2:]]
    if not is_isolated:
        sys.path.insert(0, "" if words[0] == "-c" else os.getcwd())
    if words[0] == "-m":
        return runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(words[1], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
