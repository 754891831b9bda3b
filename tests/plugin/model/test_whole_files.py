"""What fairseq's own functions write, when a disk is full or a copy is cut short."""

import os
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from tupe_fairseq.checkpoint.whole_file import damage
from tupe_fairseq.plugin.model.save_dir_guard import guard_save_dir
from tupe_fairseq.plugin.model.whole_files import WholeFiles

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a disk that is full")
STATE = {"model": {"weight": torch.ones(300, 300)}}


@pytest.fixture(autouse=True, scope="module")
def _guarded():
    guard_save_dir()


def test_a_checkpoint_is_saved_and_copied(tmp_path):
    first, last = tmp_path / "checkpoint_1_2.pt", tmp_path / "checkpoint_last.pt"
    checkpoint_utils.torch_persistent_save(STATE, str(first))
    assert torch.load(first)["model"]["weight"].equal(STATE["model"]["weight"])
    last.write_text("an earlier one")
    assert WholeFiles.copy(str(first), str(last), overwrite=True)
    assert last.read_bytes() == first.read_bytes()
    assert sorted(os.listdir(tmp_path)) == [first.name, last.name]


@needs_full
def test_a_full_disk_while_saving(tmp_path, caplog):
    last = tmp_path / "checkpoint_last.pt"
    checkpoint_utils.torch_persistent_save(STATE, str(last))
    before = last.read_bytes()
    (tmp_path / "checkpoint_last.pt.tmp").symlink_to(FULL)
    with pytest.raises(
        OSError, match="No space left on device; the earlier checkpoints in"
    ) as stop:
        checkpoint_utils.torch_persistent_save({"model": {}}, str(last))
    assert str(last) in str(stop.value) and "give another --save-dir" in str(stop.value)
    assert last.read_bytes() == before and os.listdir(tmp_path) == [last.name]
    assert not caplog.records  # fairseq's three attempts, each with a traceback


@needs_full
def test_a_full_disk_while_copying(tmp_path):
    first, last = tmp_path / "checkpoint_1_2.pt", tmp_path / "checkpoint_last.pt"
    checkpoint_utils.torch_persistent_save(STATE, str(first))
    last.write_text("an earlier one")
    (tmp_path / "checkpoint_last.pt.tmp").symlink_to(FULL)
    with pytest.raises(OSError, match="No space left on device"):
        WholeFiles.copy(str(first), str(last), overwrite=True)
    assert last.read_text() == "an earlier one" and damage(first) is None


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "checkpoint_last.pt")
    with pytest.raises(OSError, match=f"^{path}.tmp cannot be written: Not a directory"):
        checkpoint_utils.torch_persistent_save(STATE, path)


def test_others_are_read_and_written_as_before(tmp_path):
    with WholeFiles.open(str(tmp_path / "text"), "w", encoding="utf-8") as file:
        file.write("x")
    with WholeFiles.open(str(tmp_path / "text"), "rb") as file:
        assert file.read() == b"x"
