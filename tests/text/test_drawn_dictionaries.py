"""A dict.txt that is taken has for fairseq the words, in the order, that it has for us."""

import io

import pytest
from fairseq.data import Dictionary

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from tupe_fairseq.inference.model import symbols_in

_PARTS = [
    *"abc", "a 1", "b 2", " ", "  ", "\n", "\n", "\n", "1", "-1", "٣", "\t", "\r", "\r\n", "\x0b",
    "\x1c", "\u2028", "\u00a0", "\ufeff", "\x00", "<pad>", "<mask>", "#fairseq:overwrite",
    "9" * 30, "9" * 5000,
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(_PARTS), max_size=16).map("".join) | st.lists(
    st.tuples(st.sampled_from("abcdefgh\u2028\u00a0\x1c"), st.integers(0, 9)), max_size=6
).map(lambda pairs: "".join(f"{word} {count}\n" for word, count in pairs))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("drawn")


@drawn(100, text=TEXTS)
def test_as_fairseq_reads_it(folder, text):
    path = folder / "dict.txt"
    path.write_bytes(text.encode())
    try:
        symbols = symbols_in(str(path))
    except ValueError as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return
    theirs = Dictionary()
    with open(path, encoding="utf-8") as file:
        theirs.add_from_file(io.StringIO(file.read()))
    theirs.add_symbol("<mask>")
    assert theirs.symbols == symbols


@drawn(20, content=st.binary(max_size=40))
def test_any_bytes(folder, content):
    path = folder / "any.txt"
    path.write_bytes(content)
    try:
        assert symbols_in(str(path))[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    except ValueError as error:
        assert str(path) in str(error)
