"""SPLIT.bin and SPLIT.idx are the bytes of fairseq's own builder, and damage is refused."""

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import make_builder

from tupe_fairseq.data.indexed import IndexedWriter, read_indexed, read_sentences

SENTENCES = [[5, 9, 7], [], [4], [65000, 8] * 3, [], [6]]


@pytest.mark.parametrize("vocab_size", [65499, 65500])
def test_the_bytes_of_fairseqs_builder(vocab_size, tmp_path):
    builder = make_builder(str(tmp_path / "theirs.bin"), "mmap", vocab_size)
    for sentence in SENTENCES:
        builder.add_item(torch.tensor([*sentence, 2]))
    builder.finalize(str(tmp_path / "theirs.idx"))
    with IndexedWriter(str(tmp_path / "ours"), vocab_size) as writer:
        writer.write(SENTENCES[:4])
        writer.write([])
        writer.write(SENTENCES[4:])
    for ending in ("bin", "idx"):
        ours, theirs = tmp_path / f"ours.{ending}", tmp_path / f"theirs.{ending}"
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.fixture
def prefix(tmp_path):
    with IndexedWriter(str(tmp_path / "x"), 65499) as writer:
        writer.write(SENTENCES)
    return str(tmp_path / "x")


def test_reading(prefix):
    tokens, lengths = read_indexed(prefix)
    assert lengths.tolist() == [len(sentence) + 1 for sentence in SENTENCES]
    assert np.split(tokens, np.cumsum(lengths))[3].tolist() == [*SENTENCES[3], 2]
    assert [row.tolist() for row in read_sentences(prefix)] == [[*row, 2] for row in SENTENCES]
    assert len(read_sentences(prefix, 2)) == 2


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_a_file_that_is_cut_short(ending, prefix):
    path = f"{prefix}.{ending}"
    content = open(path, "rb").read()
    open(path, "wb").write(content[:-1])
    with pytest.raises(ValueError, match=r"x\.idx is not"):
        read_indexed(prefix)


def test_files_appear_when_they_are_complete(tmp_path):
    with pytest.raises(KeyError), IndexedWriter(str(tmp_path / "x"), 9) as writer:
        writer.write([[4]])
        raise KeyError
    assert not list(tmp_path.iterdir())
