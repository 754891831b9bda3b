"""The tokenizers of exported folders, against the hub interface's encoding."""

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

from tupe_fairseq.export.tokenizer.build_tokenizer import build_tokenizer
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.vocabulary import train_model

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

TEXT = [
    "The quick brown fox jumps over the lazy dog, and nobody is surprised.",
    "In 1984 there were 3,000 of them; café owners said 'no' (twice)!",
    "Ein naïver Mann – aus Köln – isst 100 % Brot... and http://www.example.org/a_b?c=d",
    "Don't stop: e-mail me@example.com; U.S. and U.K. prices rose by $5.50 in 10 days.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich <b>bold</b>.",
]
STRANGE = [
    "", " ", "   ", "\t", " \t \n", "a", " a", "a ", "  two  spaces  ", "tab\tbetween", "a\nb",
    "carriage\r\nreturn", "\x01 a", "a\x01b", "nul\x00byte", "bell\x07", "\x85", "a\x85b",
    "e\u0301", "cafe\u0301 na\u0308ive", "ﬁne", "①②③ ½ ² ™", "Ａ Ｂ １２", "～", "İstanbul", "…",
    "\u200b", "a\u200bb", "a\u200cb\u200dc", "\ufeffbom", "a\u00a0b", "a\u2003b", "\u3000",
    "日本語のテキスト", "ｶﾞ", "한국어", "\u1112\u1161\u11ab", "Привет", "مرحبا", "שלום", "हिन्दी",
    "😀", "👨\u200d👩\u200d👧", "🇩🇪 ok", "👍🏽", "𝔘𝔫𝔦", "\U000e0041", "\ufffd", "\ue000", "\ufdd1",
    "▁", "▁▁a", "a▁b", "a ▁ b", "a" * 300, "ab" * 200, "x-" * 100, "....", "--------", "''\"\"``",
    "☃", "☃☃", "☃ ☃", "☃a☃", "ẞß", "ΣΑΣ", "ǅ", "don't", "madeupword0000", "< mask >", "<sep>",
    "<unk", "s>", "</", "&amp; &lt;s&gt;", "\\n", "a/b\\c", "100,000.00", "co-op", "e.g. this",
]  # fmt: skip


def hub_ids(dictionary, encode, text):
    """The ids of fairseq's RobertaHubInterface.encode."""
    line = f"<s> {encode(text)} </s>"
    return dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist()


def read_dictionary(path):
    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol("<mask>")
    return dictionary


def from_files(files):
    assert set(files) == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}
    return tokenizers.Tokenizer.from_str(files["tokenizer.json"])


def write_pieces(folder, model_type, lowercase=False):
    """A small SentencePiece model and its dict.txt, as tupe-prepare-pretrain writes them."""
    size = 100 if model_type == "unigram" else 150
    (folder / "spm.model").write_bytes(train_model(TEXT * 20, size, model_type, 1.0, lowercase))
    Pieces(str(folder / "spm.model")).write_dictionary(str(folder / "dict.txt"))
    return str(folder / "spm.model"), read_dictionary(folder / "dict.txt")


@pytest.fixture(scope="module", params=["unigram", "bpe", "unigram lower", "bpe lower"])
def pieces(request, tmp_path_factory):
    model_type, _, lower = request.param.partition(" ")
    return write_pieces(tmp_path_factory.mktemp("pieces"), model_type, bool(lower))


def test_pieces_of_sentencepiece(pieces):
    model, dictionary = pieces
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=model))
    tokenizer = from_files(build_tokenizer("sentencepiece", [model], dictionary.symbols, 64))
    for text in [*TEXT, *STRANGE]:
        assert tokenizer.encode(text).ids == hub_ids(dictionary, bpe.encode, text), ascii(text)
    assert tokenizer.get_vocab_size() == len(dictionary)
    assert [tokenizer.token_to_id(symbol) for symbol in dictionary.symbols] == list(
        range(len(dictionary))
    )
