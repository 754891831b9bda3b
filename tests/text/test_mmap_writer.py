"""The files are those that fairseq-preprocess makes of the same pieces, byte for byte."""

import io
import json
import sys

import numpy as np
import pytest
import sentencepiece
from tqdm import tqdm

from helpers import raw_text
from tupe_fairseq.text import mmap_writer
from tupe_fairseq.text.listed_pieces import ListedPieces
from tupe_fairseq.text.mmap_index import checked_count, count, sentence_lengths
from tupe_fairseq.text.mmap_writer import ended, item_type, sentence_writer
from tupe_fairseq.text.piece_encoder import PieceEncoder, encode_file
from tupe_fairseq.text.pieces import Pieces

# fairseq-preprocess itself, once for several texts: to start it takes seconds
_PREPROCESS = """
import json, sys
from fairseq import options
from fairseq_cli import preprocess
for words in json.load(open(sys.argv[1])):
    preprocess.main(options.get_preprocessing_parser().parse_args(words))
"""
LIMIT = 7
# lines that end, begin and are blocks of their own, too
TEXT = "\n".join(
    [
        "ba bé ci dö", "日本 ba 中 ci", "", "A <mask> and <s> and </s> and <pad> and/or <unk>.",
        "ba " * 30 + "ci", "", "\u200b", "", "\u200b", "lo mi.", "w1 w2 w1</w>", "madeupword0000",
        "", *(line for lines in raw_text.documents(9) for line in [*lines, ""]),
        "the <unk> of the end", "",
    ]
)  # fmt: skip


class Words:
    """Splits at spaces."""

    before_word = ""
    split = staticmethod(str.split)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split("\n")), model_writer=model, vocab_size=100, bos_id=0,
        pad_id=1, eos_id=2, unk_id=3, user_defined_symbols=["<mask>"], character_coverage=0.98,
        minloglevel=2,
    )  # fmt: skip
    (folder / "model").write_bytes(model.getvalue())
    (folder / "text").write_text(TEXT, encoding="utf-8")
    return folder


def vocabularies(folder):
    """Vocabularies and their dict.txt, by name."""
    own = Pieces(str(folder / "model"))
    words = list(own.words())
    odd = ["w2", "<mask>", "the", "\u3000w\u3000", "ba", "madeupword0000", "w1", "bé", "<url>"]
    many = [f"w{n}" for n in range(65499 - 4)]
    lists = {
        "own": words,
        "padded, with a mask, in another order": [*words[::-1], "<mask>", "madeupword0000"],
        "of which words are missing": words[::2],
        "listed": odd,
        "the last of 16 bits": many,
        "the first of 32 bits": [*many, "last"],
    }
    for number, (name, listed) in enumerate(lists.items()):
        path = folder / f"dict{number}.txt"
        path.write_text("".join(f"{word} {n}\n" for n, word in enumerate(listed)), encoding="utf-8")
        pieces = own if listed[0] in words or listed[-1] == "madeupword0000" else None
        yield name, pieces or ListedPieces(str(path), Words), str(path)


def as_text(pieces):
    """What fairseq-preprocess is given: pieces with spaces between, a blank line between texts."""
    documents = []
    for document in TEXT.split("\n\n"):
        lines = []
        for ids in pieces.encode(document.split("\n")):
            lines += [pieces.to_text(ids[n : n + LIMIT]) for n in range(0, len(ids), LIMIT)]
        documents += ["\n".join(lines)] if lines else []
    return "\n\n".join(documents) + "\n"


@pytest.fixture(scope="module")
def theirs(folder, run):
    calls = []
    for number, (_, pieces, dictionary) in enumerate(vocabularies(folder)):
        (folder / f"pieces{number}").write_text(as_text(pieces), encoding="utf-8")
        words = ["--only-source", "--srcdict", dictionary, "--destdir", str(folder / str(number))]
        calls.append([*words, "--validpref", str(folder / f"pieces{number}")])
    (folder / "calls").write_text(json.dumps(calls))
    run(sys.executable, "-c", _PREPROCESS, folder / "calls")
    return [
        {end: (folder / str(n) / f"valid.{end}").read_bytes() for end in ("bin", "idx")}
        for n in range(len(calls))
    ]


@pytest.mark.parametrize("workers, block", [(1, 1 << 20), (2, 50)], ids=["whole", "blocks"])
def test_bytes_of_fairseq_preprocess(workers, block, folder, theirs, tmp_path, monkeypatch):
    monkeypatch.setattr("tupe_fairseq.text.reading.BLOCK_BYTES", block)
    monkeypatch.setattr(mmap_writer, "_CHUNK", block)
    for (name, pieces, dictionary), expected in zip(vocabularies(folder), theirs):
        encoder = PieceEncoder(pieces, dictionary, LIMIT)
        prefix = str(tmp_path / "made" / "valid")
        bar = tqdm(disable=True)
        counts = encode_file(str(folder / "text"), encoder, prefix, workers, bar)
        for end, content in expected.items():
            with open(f"{prefix}.{end}", "rb") as file:
                assert file.read() == content, (name, end)
        blank = counts["documents"] - 1
        sentences = counts["lines"] + blank
        assert count(prefix) == (sentences, counts["tokens"] + sentences)
        assert checked_count(prefix, 70_000) == sentences
        assert np.count_nonzero(sentence_lengths(prefix) == 1) == blank
        assert counts["cut"] > 5 and counts["unknown"] > 5
    assert item_type(65499).itemsize == 2 and item_type(65500).itemsize == 4


def test_nothing_is_left_of_what_is_not_finished(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with sentence_writer(str(tmp_path / "a" / "train"), np.dtype("<u2")) as writer:
            writer.write(ended(np.array([5, 6, 7], "<u2"), np.array([1, 0, 2])))
            raise ZeroDivisionError
    assert list((tmp_path / "a").iterdir()) == []
    with sentence_writer(str(tmp_path / "empty"), np.dtype("<u2")):
        pass
    assert count(str(tmp_path / "empty")) == (0, 0)


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_what_is_cut_short_is_refused(ending, tmp_path):
    with sentence_writer(str(tmp_path / "train"), np.dtype("<u2")) as writer:
        writer.write(ended(np.array([5, 6, 7], "<u2"), np.array([1, 0, 2])))
    path = tmp_path / f"train.{ending}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is cut short"):
        count(str(tmp_path / "train"))


def test_a_dictionary_that_lists_a_symbol_of_fairseqs(folder, tmp_path):
    (tmp_path / "dict.txt").write_text("ba 1\n<pad> 1\n")
    with pytest.raises(ValueError, match="dict.txt lists <pad>, which fairseq's dictionary has"):
        PieceEncoder(Pieces(str(folder / "model")), str(tmp_path / "dict.txt"), LIMIT)
