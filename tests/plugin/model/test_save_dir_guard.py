"""Which checkpoint a training goes on from."""

import os

import pytest
import torch

from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.plugin.model.save_dir_guard import whole_instead_of_last


def save(folder, **updates):
    """Checkpoints of so many updates; None for one that is cut short."""
    for name, made in updates.items():
        state = {"model": {"w": torch.ones(99)}, "optimizer_history": [{"num_updates": made or 9}]}
        path = folder / f"checkpoint{name}.pt"
        torch.save(state, path)
        if made is None:
            os.truncate(path, path.stat().st_size - 300)


def test_the_last_one(tmp_path):
    assert whole_instead_of_last(str(tmp_path)) is None
    save(tmp_path, _last=4, _best=6)
    assert whole_instead_of_last(str(tmp_path)) is None


def test_the_newest_whole_one_in_its_place(tmp_path, caplog):
    save(tmp_path, _last=None, _best=4, _1_6=6, _1_8=None, **{"1": 5})
    (tmp_path / "checkpoint_1_9.pt.tmp").write_text("half")
    (tmp_path / "checkpoint_mine.pt").write_bytes(b"\x80 mine")
    assert whole_instead_of_last(str(tmp_path)) == str(tmp_path / "checkpoint_1_6.pt")
    last = tmp_path / "checkpoint_last.pt"
    assert f"{last} is not whole (BadZipFile: File is not a zip file)" in caplog.text
    assert f"going on from {tmp_path / 'checkpoint_1_6.pt'}, after 6 updates" in caplog.text


def test_none_is_whole(tmp_path):
    save(tmp_path, _last=None, _best=None)
    with pytest.raises(CheckpointError, match="nor is any other .* delete it to begin afresh"):
        whole_instead_of_last(str(tmp_path))
