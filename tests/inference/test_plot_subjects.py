"""What tupe-plot reads of a data folder, after something happened to it."""

import struct

import numpy as np
import pytest

from helpers.glue_data import write_bin
from tupe_fairseq.inference import plot_subjects
from tupe_fairseq.inference.model import symbols_in

WORDS = "a 1\nb 1\nc 1\n"


@pytest.fixture
def valid(tmp_path):
    (tmp_path / "dict.txt").write_text(WORDS)
    write_bin(tmp_path / "valid", [[4, 2], [5, 6, 2]])
    return tmp_path / "valid"


def sentences(valid):
    symbols = symbols_in(str(valid.parent / "dict.txt"))
    return plot_subjects._valid_sentences(str(valid.parent), len(symbols), 9)


def test_the_first_sentences(valid):
    assert [tokens.tolist() for tokens in sentences(valid)] == [[4, 2], [5, 6, 2]]


@pytest.mark.parametrize(
    "name, content",
    [
        ("valid.idx", b""),
        ("valid.idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 4, 2)),
        ("valid.idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 9, 99, 2) + bytes(24)),
        ("valid.bin", b"\x04\x00"),
    ],
    ids=["empty", "header", "version", "cut"],
)
def test_a_damaged_valid_split(name, content, valid):
    (valid.parent / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{valid}.idx or .bin is damaged: "):
        sentences(valid)


@pytest.mark.parametrize("token", [7 + 1, -1, 2**31 - 1])
def test_tokens_of_another_dictionary(token, valid):
    np.array([4, 2, 5, token, 2], "<i4").tofile(valid.with_suffix(".bin"))
    with pytest.raises(ValueError, match="valid.bin has tokens that the dictionary of --data does"):
        sentences(valid)
