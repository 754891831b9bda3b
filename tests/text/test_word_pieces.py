"""Pieces of words apart are those of the line that they make, for each kind of vocabulary."""

import pytest

from helpers.glue_files import write_pretrain_dir
from helpers.vocabularies import convert, write_authors, write_gpt2
from tupe_fairseq.text.pretrain_dir import PretrainDir
from tupe_fairseq.text.word_pieces import differs_from_line, word_pieces

SENTENCES = [
    ["The", "cat", "sees", "the", "sea."],
    ["(the", "a", "theatre", "the", ",", "\u9f8d", "Caf\u00e9", "<mask>"],
    ["w1", "w11", "the"],
    ["alone"],
    [],
]


def write_fastbpe(folder):
    pytest.importorskip("sacremoses")
    return write_authors(folder)


@pytest.fixture(scope="module", params=["sentencepiece", "lowercase", write_gpt2, write_fastbpe])
def pretrained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    if isinstance(request.param, str):
        write_pretrain_dir(folder / "data", lowercase=request.param == "lowercase")
    else:
        code, printed = convert(request.param(folder / "theirs"), folder / "data")
        assert code == 0, printed
    return PretrainDir(str(folder / "data"))


def test_together_they_are_the_line(pretrained):
    pieces, treatment = pretrained.pieces, pretrained.treatment
    found = word_pieces(pieces, treatment, SENTENCES)
    assert [len(split) for split in found] == [len(words) for words in SENTENCES]
    for words, split in zip(SENTENCES, found):
        line = pieces.encode([treatment.apply(" ".join(words))])[0]
        assert [i for ids in split for i in ids] == list(line)
        assert not differs_from_line(pieces, treatment, words, split)
        assert all(split)


def test_a_word_without_anything_is_unknown(pretrained):
    """It stays a word, and the sentence is said to differ from its line."""
    words = ["the", "", "cat\nthe", " "]
    ((first, nothing, _, blank),) = word_pieces(pretrained.pieces, pretrained.treatment, [words])
    assert nothing == blank == [pretrained.pieces.unknown_id] and first
    split = [first, nothing]
    assert differs_from_line(pretrained.pieces, pretrained.treatment, words[:2], split)
