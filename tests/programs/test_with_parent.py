"""A training process ends with the process that started it, even if that is killed."""

import multiprocessing
import os
import select
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tupe_fairseq.programs.train import train

LONG = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(120)"]


def start(log, lock, from_a_pool):
    """As tupe-finetune starts it, or from the threads of tupe-compare."""

    def run():
        train(LONG, str(log), lambda line: None, lock=lock)

    if from_a_pool:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run).result()
    else:
        run()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can do it")
@pytest.mark.parametrize("from_a_pool", [False, True], ids=["main-thread", "pool"])
def test_killed_with_its_parent(from_a_pool, tmp_path):
    ours, theirs = os.pipe()
    parent = multiprocessing.get_context("fork").Process(
        target=start, args=(tmp_path / "train.log", theirs, from_a_pool)
    )
    parent.start()
    os.close(theirs)
    log, deadline = tmp_path / "train.log", time.monotonic() + 60
    while not log.exists() or not log.stat().st_size:
        assert parent.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    # the child is alive and holds the pipe
    assert select.select([ours], [], [], 0.2)[0] == []
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    ended = select.select([ours], [], [], 20)[0] == [ours] and os.read(ours, 1) == b""
    os.close(ours)
    assert ended
