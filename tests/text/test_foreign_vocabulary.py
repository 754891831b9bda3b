"""Vocabularies of other programs: the same pieces as there, and records that are checked."""

import argparse
import json
import pickle

import pytest
import sentencepiece
from fairseq.data.encoders.gpt2_bpe import GPT2BPE

from helpers.authors import WORDS
from helpers.hidden import hide
from helpers.vocabularies import convert, write_authors, write_gpt2, write_stock
from tupe_fairseq.data.tupe_text import TupeText
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary
from tupe_fairseq.text.pretrain_dir import PretrainDir
from tupe_fairseq.text.to_pieces import ToPieces

TEXTS = ["the a  the\tother thé", " a the", "É 你好 🎉 the.", "1,000 don't THE-the"]


@pytest.fixture(scope="module")
def authors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authors")
    code, text = convert(write_authors(folder), folder / "out")
    assert code == 0, text
    return folder / "out"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    code, text = convert(write_gpt2(folder), folder / "out")
    assert code == 0, text
    return folder / "out"


@pytest.mark.parametrize(
    "line, words",
    [
        ("The Cat sat.", "the cat sat ."),
        # Moses on text that is lower case already, and nothing escaped
        ("Mr. Smith & Sons' dog isn't 'here'", "mr . smith & sons ' dog isn 't ' here '"),
        ("It cost $1,000.50 (or 20 %), i.e. a lot", "it cost $ 1,000.50 ( or 20 % ) , i.e . a lot"),
        ("a well-known -- co-op", "a well - known - - co - op"),
        ("Wait.... what..no…", "wait . . . what . . no . . ."),
        ("See http://www.x.org/a-b, or WWW.X.ORG.", "see <url> , or <url> ."),
        # their class [^$s] takes no s before .com
        ("foo.com bars.com me@site.org (my_file.txt)", "<url> bars.com <email> ( <file> )"),
        ("<url> <mask> </s>", "< url > < mask > < / s >"),
        ("“Café” ‘x’ «y» a\\b *c a\u200bb\x07c", "\" café \" ' x \" \" y \" a b c a b c"),
        ("one,, two,.", "one , two ."),
        ("\t  ", ""),
    ],
)  # fmt: skip
def test_the_words_of_the_authors_scripts(line, words):
    assert TupeText().words(line) == words.split()


def test_pieces_of_fastbpe_and_what_is_unknown(authors):
    vocabulary = ForeignVocabulary(str(authors))
    # w1 and w19 are words of dict.txt, w23 is not: its pieces are unknown, as in fairseq
    assert vocabulary.splitter.split("W19, w1-w23") == "w19 , w1 - w@@ 2@@ 3".split()
    ids = vocabulary.pieces.encode(["W19 w23 http://www.x.org", ""])
    listed = ["<file>", "<email>", "<url>", *(word.split()[0] for word in WORDS)]
    assert ids == [[1 + listed.index("w19"), 0, 0, 0, 3], []]
    assert vocabulary.pieces.unknown_id == 0
    assert vocabulary.pieces.to_text(ids[0]) == "w19 <unk> <unk> <unk> <url>"
    assert list(vocabulary.pieces.words()) == listed
    assert vocabulary.splitter.join(["w@@", "2@@", "3", "w1"]) == "w23 w1"


def test_a_merge_learnt_first_comes_first(tmp_path):
    from tupe_fairseq.text.fast_bpe import FastBpe

    (tmp_path / "codes").write_text("b c 9\na b 8\nc d</w> 7\na bc 2\n")
    splitter = FastBpe(str(tmp_path / "codes"))
    assert splitter.split("abcd abd cd abc") == "abc@@ d ab@@ d cd ab@@ c".split()


def test_pieces_of_gpt2_are_fairseqs(gpt2):
    vocabulary = ForeignVocabulary(str(gpt2))
    files = {"gpt2_encoder_json": gpt2 / "encoder.json", "gpt2_vocab_bpe": gpt2 / "vocab.bpe"}
    theirs = GPT2BPE(argparse.Namespace(**{name: str(path) for name, path in files.items()}))
    for text in TEXTS:
        assert " ".join(vocabulary.splitter.split(text)) == theirs.encode(text)
        assert vocabulary.splitter.join(vocabulary.splitter.split(text)) == text
    # 30 numbers are not in dict.txt
    ids = vocabulary.pieces.encode(["the !"])[0]
    assert vocabulary.pieces.to_text(ids) == "257 220 <unk>"
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert copy.pieces.encode(TEXTS) == vocabulary.pieces.encode(TEXTS)


def test_the_text_is_not_treated_before_it_is_split(gpt2):
    treatment = PretrainDir(str(gpt2)).treatment
    line = "  <mask>  e\u0301\u00ad\u00a0x \r"
    assert treatment.apply(line + "\n y\n") == "<mask>  e\u0301\u00ad\u00a0x\ny\n"
    assert ToPieces(str(gpt2), str(gpt2))(" the") == "257"


def test_a_sentencepiece_model_of_which_dict_txt_lists_a_part(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sees a dog", "a dog sees the cat"] * 5), vocab_size=30,
        model_prefix=str(tmp_path / "spm"), model_type="bpe", minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(str(tmp_path / "spm.model"))
    pieces = model.encode("the cat sees a dog", out_type=str)
    listed = [*dict.fromkeys(pieces[::-1][1:])]
    flags = write_stock(tmp_path, [*(f"{piece} 7" for piece in listed), "madeupword0000 0"])
    code, text = convert(
        flags, tmp_path / "out", "--sentencepiece-model", tmp_path / "spm.model"
    )  # fmt: skip
    assert code == 0, text
    found = ForeignVocabulary(str(tmp_path / "out"))
    expected = [1 + listed.index(piece) if piece in listed else 0 for piece in pieces]
    assert found.pieces.encode(["the cat sees a dog"]) == [expected] and 0 in expected
    assert found.splitter.join(pieces) == "the cat sees a dog"
    assert PretrainDir(str(tmp_path / "out")).tokens_per_sample == 16


def copied(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kind": "wordpiece"}, "does not name a vocabulary that this version"),
        ({"kind": ["fastbpe"]}, "does not name a vocabulary that this version"),
        ({"text": "upper case"}, "does not name a vocabulary that this version"),
        ({"max_positions": "9"}, "does not name a vocabulary that this version"),
        ({"sha256": {}}, "does not name a vocabulary that this version"),
        ({"sha256": {"dict.txt": "0", "bpecodes": "0"}}, "dict.txt has changed since"),
    ],
)
def test_a_broken_record(change, message, authors, tmp_path):
    folder = copied(authors, tmp_path)
    record = json.loads((folder / "vocabulary.json").read_text())
    (folder / "vocabulary.json").write_text(json.dumps({**record, **change}))
    with pytest.raises(ValueError, match=message):
        PretrainDir(str(folder))


@pytest.mark.parametrize("content", ["null", "[1]", "{", "\xff"])
def test_a_record_that_is_none(content, authors, tmp_path):
    folder = copied(authors, tmp_path)
    (folder / "vocabulary.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"vocabulary\.json"):
        PretrainDir(str(folder))


def test_a_file_of_the_vocabulary_is_missing(authors, tmp_path):
    folder = copied(authors, tmp_path)
    (folder / "bpecodes").unlink()
    with pytest.raises(FileNotFoundError, match=r"bpecodes is missing; vocabulary\.json"):
        PretrainDir(str(folder))


def test_a_package_is_missing(authors, monkeypatch):
    hide(monkeypatch, "subword_nmt")
    with pytest.raises(ModuleNotFoundError, match="subword_nmt"):
        PretrainDir(str(authors))
