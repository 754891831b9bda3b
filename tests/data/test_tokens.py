"""Text to ids by every vocabulary, files of ids, and ids cut to the length of a model."""

import argparse
import signal
import unicodedata
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.data.indexed_dataset import make_builder

from helpers.running import run_here
from helpers.vocabularies import convert, write_gpt2
from tupe_fairseq.data.indexed import IndexedWriter, read_indexed, read_sentences
from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.text_files import clean_line
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.data.truncation import windows

TEXTS = ["the a  the\tother thé", " a the", "É 你好 🎉 the.", "1,000 don't THE-the"]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    convert(write_gpt2(folder), folder / "out")
    return folder / "out"


@pytest.fixture
def own(tmp_path):
    """A folder without vocabulary.json."""
    lines = ["the cat sees a dog", "a dog sees the cat", "<mask> the é ß ½"] * 5
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), vocab_size=23, model_prefix=str(tmp_path / "spm"),
        bos_id=0, pad_id=1, eos_id=2, unk_id=3, user_defined_symbols=["<mask>"],
        normalization_rule_name="nmt_nfkc", minloglevel=2,
    )  # fmt: skip
    (tmp_path / "spm.model").rename(tmp_path / "sentencepiece.bpe.model")
    (tmp_path / "spm.vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(str(tmp_path / "sentencepiece.bpe.model"))
    pieces = map(model.id_to_piece, range(4, len(model)))
    lines = [f"{piece} 1\n" for piece in pieces if piece != "<mask>"]
    (tmp_path / "dict.txt").write_text("".join(lines))
    return tmp_path


# ---- The line before it is split -------------------------------------------------------------


@pytest.mark.parametrize(
    "line, cleaned",
    [
        (" a \t b\u00a0\u2028c\r\n", "a b c"),
        ("e\u0301\u00ad\u200bx\x07\ufeff\ufffd", "\u00e9x"),
        ("\u200c\u200d", "\u200c\u200d"),  # they distinguish words
        ("a\x1fb\x85c", "a b c"),  # white space
        ("\ufb01\u00bd", "\ufb01\u00bd"),  # NFC, not NFKC
        ("<mask> <MASK> <b>", "< mask> < MASK> <b>"),
        ("\u200b \x00", ""),
    ],
)
def test_cleaning(line, cleaned):
    assert clean_line(line) == cleaned
    assert clean_line(cleaned) == cleaned
    assert clean_line(line.upper(), lowercase=True) == unicodedata.normalize(
        "NFC", clean_line(line.upper()).lower()
    )


# ---- Subwords and their ids ------------------------------------------------------------------


def test_gpt2_is_fairseqs(gpt2):
    tokenizer = Tokenizer.load(str(gpt2))
    files = {"gpt2_encoder_json": gpt2 / "encoder.json", "gpt2_vocab_bpe": gpt2 / "vocab.bpe"}
    theirs = GPT2BPE(argparse.Namespace(**{name: str(path) for name, path in files.items()}))
    dictionary = Dictionary.load(str(gpt2 / "dict.txt"))
    for text in [*TEXTS, " lead", "trail ", "a\nb", "\u3000a"]:
        line = theirs.encode(text)
        assert " ".join(tokenizer.split(text)) == line
        ids = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False)
        assert tokenizer.encode(text) == ids.tolist()
        assert tokenizer.subwords.join(tokenizer.split(text)) == text


def test_a_folder_without_a_record(own):
    """Such as one of spm_encode and fairseq-preprocess: the text is that of --bpe sentencepiece."""
    tokenizer = Tokenizer.load(str(own))
    model = sentencepiece.SentencePieceProcessor(str(own / "sentencepiece.bpe.model"))
    dictionary = Dictionary.load(str(own / "dict.txt"))
    for text in ["the cat sees", "a\u00ad dog ½", "e\u0301 zzz", "", "a\x85b \u2028 zz"]:
        pieces = " ".join(model.encode(text, out_type=str))
        ids = dictionary.encode_line(pieces, append_eos=False, add_if_not_exist=False)
        assert tokenizer.encode(text) == ids.tolist()
    # text never becomes a special token
    assert not {0, 1, 2, len(tokenizer.ids) - 1} & set(tokenizer.encode("<s> <pad> </s> <mask>"))
    assert tokenizer.decode(tokenizer.encode("the cat sees")) == "the cat sees"


def test_a_dictionary_of_fairseq_preprocess(own, tmp_path):
    """It lists characters that the model lacks, because spm_encode leaves them as they are."""
    model = sentencepiece.SentencePieceProcessor(str(own / "sentencepiece.bpe.model"))
    lines = ["the cat \u65e5\u672c sees", "a dog \u4e2d", "the \u65e5\u672c dog \u5927\u4e2d"]
    text = "".join(" ".join(model.encode(line, out_type=str)) + "\n" for line in lines)
    (own / "train").write_text(text, encoding="utf-8")
    flags = ["--only-source", "--trainpref", own / "train", "--destdir", tmp_path / "out"]
    run_here("fairseq-preprocess", *flags, "--workers", 1)
    (own / "sentencepiece.bpe.model").rename(tmp_path / "out" / "sentencepiece.bpe.model")
    tokenizer = Tokenizer.load(str(tmp_path / "out"))
    assert tokenizer.encode_batch(lines) == [
        sentence[:-1].tolist() for sentence in read_sentences(str(tmp_path / "out" / "train"))
    ]
    assert tokenizer.encode("\u65e5\u672c \u6728")[-1] == 3
    assert tokenizer.decode(tokenizer.encode(lines[2])) == lines[2]


def test_rows_in_several_processes(own):
    tokenizer = Tokenizer.load(str(own))
    lines = [f"the cat {number}" for number in range(9)]
    found = parallel_map(tokenizer.encode_rows, [[[line, "dog"]] for line in lines], workers=2)
    expected = [[list(map(tokenizer.encode, [line, "dog"]))] for line in lines]
    assert list(found) == expected
    with ThreadPoolExecutor(1) as pool:  # also where Python sets no handlers of signals
        found = pool.submit(lambda: list(parallel_map(abs, range(-50, 0), 2))).result()
    assert found == list(range(50, 0, -1))


def test_an_interrupted_pool_of_several_processes_has_started(monkeypatch):
    started = []

    def submit(pool, *call):
        signal.raise_signal(signal.SIGINT)
        started.append(pool)
        return whole(pool, *call)

    whole = ProcessPoolExecutor.submit
    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        list(parallel_map(abs, range(5), 2))
    assert len(started) == 1


# ---- Files of ids ----------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [65499, 65500])
def test_the_bytes_of_fairseqs_builder(vocab_size, tmp_path):
    sentences = [[5, 9, 7], [], [4], [65000, 8] * 3, [], [6]]
    builder = make_builder(str(tmp_path / "theirs.bin"), "mmap", vocab_size)
    for sentence in sentences:
        builder.add_item(torch.tensor([*sentence, 2]))
    builder.finalize(str(tmp_path / "theirs.idx"))
    prefix = tmp_path / "ours"
    with pytest.raises(KeyError), IndexedWriter(str(prefix), vocab_size) as writer:
        writer.write([[4]])
        raise KeyError
    assert not list(tmp_path.glob("ours*"))  # files appear when they are complete
    with IndexedWriter(str(prefix), vocab_size) as writer:
        for some in (sentences[:4], [], sentences[4:]):
            writer.write(some)
    assert [row.tolist() for row in read_sentences(str(prefix))] == [[*x, 2] for x in sentences]
    for ending in ("bin", "idx"):
        path = prefix.with_suffix(f".{ending}")
        content = path.read_bytes()
        assert content == (tmp_path / f"theirs.{ending}").read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(ValueError, match=r"ours\.idx is not"):
            read_indexed(str(prefix))
        path.write_bytes(content)


# ---- Cut to a length: pairs longest first, and each word tagged in one window -----------------


def sentences():
    """Words of 1 to 3 tokens, some of far more, and any room."""
    draw = np.random.default_rng(1)
    for number in range(400):
        sizes = draw.integers(1, 4, draw.integers(1, 60))
        if number % 3 == 0:
            sizes[draw.integers(0, len(sizes), 2)] = draw.integers(1, 40, 2)
        starts = np.cumsum(sizes) - sizes
        yield sizes, starts, starts + sizes, int(sum(sizes)), int(draw.integers(1, 30))


def test_every_word_is_tagged_where_it_has_most_context():
    for sizes, starts, ends, tokens, room in sentences():
        found = windows(starts, tokens, room)
        words = [word for one in found for word in range(one.first, one.last)]
        assert words == list(range(len(sizes)))
        for one in found:
            assert 0 <= one.start < one.stop <= tokens and one.stop - one.start <= room
            assert one.start in starts and one.first < one.last
            for word in range(one.first, one.last):
                assert one.start <= starts[word] < one.stop
                if sizes[word] <= room // 2:
                    assert ends[word] <= one.stop
                context = {}
                for other in found:
                    if other.start <= starts[word] < other.stop:
                        left = starts[word] - other.start if other.start else np.inf
                        right = other.stop - ends[word] if other.stop < tokens else np.inf
                        context[other] = min(left, right)
                assert context[one] == max(context.values())


def test_a_quarter_of_the_room_is_context():
    starts, room = np.arange(0, 400, 2), 40
    for one in windows(starts, 400, room):
        for word in range(one.first, one.last):
            assert one.start == 0 or starts[word] - one.start >= room // 4 - 2
            assert one.stop == 400 or one.stop - starts[word] - 2 >= room // 4 - 2
