"""Duplicates found on disk are those that a set finds."""

import random

import numpy as np
import pytest

from tupe_fairseq.text import deduplication
from tupe_fairseq.text.deduplication import mark_duplicates


def write_hashes(path, hashes):
    np.array(hashes, dtype="<u8").tofile(path)
    return str(path)


@pytest.mark.parametrize("memory", [1 << 28, 20_000, 2000], ids=["one-part", "parts", "many-parts"])
def test_against_a_set(memory, tmp_path, monkeypatch):
    monkeypatch.setattr(deduplication, "_CHUNK_LINES", 300)
    random_ = random.Random(2)
    # both ends of the range, and values that differ in the lowest bit only
    pool = [0, 1, 2**64 - 1, 2**64 - 2] + [random_.getrandbits(64) for _ in range(900)]
    files = [[random_.choice(pool) for _ in range(n)] for n in (700, 0, 1201)]
    seen = set()
    expected = []
    for value in (value for values in files for value in values):
        expected.append(value in seen)
        seen.add(value)
    paths = [write_hashes(tmp_path / f"{i}.hash", values) for i, values in enumerate(files)]
    marks = tmp_path / "marks"
    found = mark_duplicates(paths, str(marks), str(tmp_path), memory)
    assert found == sum(expected) > 900
    assert list(map(bool, marks.read_bytes())) == expected
    assert not list(tmp_path.glob("hashes*"))


def test_nothing(tmp_path):
    assert mark_duplicates([], str(tmp_path / "marks"), str(tmp_path)) == 0
    assert (tmp_path / "marks").read_bytes() == b""


def test_memory_is_kept(tmp_path, monkeypatch):
    """The size of what is sorted at once is what the budget allows."""
    sizes = []
    argsort = np.argsort

    def watched(values, **kwargs):
        if values.dtype == np.uint64:
            sizes.append(len(values))
        return argsort(values, **kwargs)

    monkeypatch.setattr(np, "argsort", watched)
    hashes = np.random.RandomState(1).randint(0, 2**63, 40_000).astype(np.uint64) * np.uint64(2)
    path = write_hashes(tmp_path / "a", hashes)
    mark_duplicates([path], str(tmp_path / "marks"), str(tmp_path), memory=64 * 5000)
    assert sum(sizes) == 40_000
    assert len(sizes) == 8 and max(sizes) < 5500
