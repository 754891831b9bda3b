"""Whole checkpoints, and what is left of others."""

import os

import pytest
import torch

from tupe_fairseq.checkpoint.whole_file import damage


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "checkpoint_last.pt"
    torch.save({"model": {f"weight{i}": torch.randn(30, 30) for i in range(4)}}, path)
    return path


def test_a_whole_one(whole):
    assert damage(whole) is None


@pytest.mark.parametrize("part", [0, 2, 0.1, 0.5, 0.9, -1])
def test_cut_short(part, whole):
    size = whole.stat().st_size
    os.truncate(whole, size + part if part < 0 else int(part if part in (0, 2) else part * size))
    assert damage(whole)


def test_a_part_that_never_reached_the_disk(whole):
    """Of the right size and with its list of entries, as a power failure can leave it."""
    with open(whole, "r+b") as file:
        file.seek(whole.stat().st_size // 2)
        file.write(bytes(512))
    assert "checksum" in damage(whole) or "BadZipFile" in damage(whole)


def test_zeros_and_other_files(whole):
    size = whole.stat().st_size
    whole.write_bytes(bytes(size))
    assert damage(whole) == "it does not begin as a checkpoint does"
    whole.write_bytes(b"")
    assert damage(whole) == "it is empty"


def test_a_file_of_an_old_torch(whole):
    torch.save({"model": {}}, whole, _use_new_zipfile_serialization=False)
    assert damage(whole) is None


def test_an_absent_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        damage(tmp_path / "checkpoint_last.pt")
