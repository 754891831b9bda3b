"""One training at a time in a folder: between processes, and within one."""

import multiprocessing
import sys
import time

import pytest

from tupe_fairseq.files.lock import locked
from tupe_fairseq.plugin.model.held_folder import hold

FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks of folders there")


class Training:
    pass


def is_free(folder):
    """Whether another process could work there."""
    try:
        with locked(str(folder)):
            return True
    except ValueError:
        return False


def test_as_long_as_its_training_is_there(tmp_path):
    first, second = Training(), Training()
    hold(str(tmp_path), first)
    assert not is_free(tmp_path)
    hold(str(tmp_path), second)  # by the same process
    del first
    assert not is_free(tmp_path)
    del second
    assert is_free(tmp_path)


def test_a_second_process_is_refused(tmp_path):
    with locked(str(tmp_path)):
        with pytest.raises(ValueError, match=f"another training is using --save-dir {tmp_path}: "):
            hold(str(tmp_path), Training(), patience=0)
    owner = Training()
    hold(str(tmp_path), owner, patience=0)


def test_a_process_that_is_ending_is_waited_for(tmp_path):
    def work(ready):
        with locked(str(tmp_path)):
            ready.set()
            time.sleep(0.5)

    ready = FORK.Event()
    other = FORK.Process(target=work, args=(ready,))
    other.start()
    ready.wait()
    owner = Training()
    hold(str(tmp_path), owner)
    other.join()


def test_a_worker_that_outlives_the_training_does_not_hold_it(tmp_path):
    """As a data loader's, when the training alone is killed."""

    def work(begun, over):
        begun.set()
        over.wait(60)

    begun, over, owner = FORK.Event(), FORK.Event(), Training()
    hold(str(tmp_path), owner)
    worker = FORK.Process(target=work, args=(begun, over), daemon=True)
    worker.start()
    assert begun.wait(60)
    del owner
    assert worker.is_alive() and is_free(tmp_path)
    over.set()
    worker.join()


def test_a_file_system_without_locks(tmp_path, caplog):
    absent = tmp_path / "absent"  # which cannot be opened either
    hold(str(absent), Training())
    assert f"{absent} cannot be locked" in caplog.text
