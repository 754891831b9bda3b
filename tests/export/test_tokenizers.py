"""The tokenizers of exported folders, against the hub interface's encoding."""

import json

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

from helpers.authors import codes_for
from helpers.vocabularies import write_gpt2
from tupe_fairseq.data.dictionary import write_dictionary
from tupe_fairseq.data.pretraining import learn_sentencepiece as train_model
from tupe_fairseq.data.subwords import FastBpe, Gpt2Bpe, SentencePiece
from tupe_fairseq.export.tokenizer.build_tokenizer import build_tokenizer
from tupe_fairseq.export.tokenizer.tokenizer_files import count_unlisted

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
    # few pieces beyond characters: of two ways to split a word with equal scores, which a small
    # text has many of, SentencePiece takes one by its rounding to 32 bits
    size = 90 if model_type == "unigram" else 150
    lines = [line for count, line in enumerate(TEXT, 7) for _ in range(count)]
    (folder / "spm.model").write_bytes(train_model(lines, size, model_type, 1.0, lowercase))
    words = SentencePiece(str(folder / "spm.model")).words()
    write_dictionary(str(folder / "dict.txt"), words)
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


def test_two_sentences_and_the_mask(pieces):
    model, dictionary = pieces
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=model))
    files = build_tokenizer("sentencepiece", [model], dictionary.symbols, 64)
    tokenizer = from_files(files)
    first, second = TEXT[:2]
    pair = f"{bpe.encode(first)} </s> </s> {bpe.encode(second)}"
    encoded = tokenizer.encode(first, second)
    assert encoded.ids == hub_ids(dictionary, str, pair)
    assert set(encoded.type_ids) == {0}
    for text in ("The <mask> fox", "<mask>", " <mask> .", "a<mask>b", "a <mask>, b", "The  <mask>"):
        # as in RobertaHubInterface.fill_mask
        spans = [bpe.encode(span.rstrip()) for span in text.split("<mask>")]
        expected = hub_ids(dictionary, str, " <mask> ".join(spans))
        assert tokenizer.encode(text).ids == expected, text
    # the names of symbols in a text are symbols here, as in all tokenizers of this library
    assert tokenizer.encode("<s></s>").ids == [0, 0, 2, 2]
    config = json.loads(files["tokenizer_config.json"])
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (config["model_max_length"], config["padding_side"]) == (64, "right")


def test_text_comes_back_and_the_file_survives_saving(pieces):
    model, dictionary = pieces
    tokenizer = from_files(build_tokenizer("sentencepiece", [model], dictionary.symbols, 64))
    text = "nobody is surprised, of course"
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == text
    assert text[slice(*encoded.offsets[1])].startswith("n")
    again = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    assert all(again.encode(line).ids == tokenizer.encode(line).ids for line in STRANGE)


def known(ids, size):
    """The ids, with <unk> for pieces that the dictionary lacks."""
    return [id_ if id_ < size else 3 for id_ in ids]


def agree(tokenizer, dictionary, split, texts):
    """Whether the ids are the hub's, of which pieces that the dictionary lacks are unknown."""
    for text in texts:
        expected = hub_ids(dictionary, lambda line: " ".join(split(line)), text)
        assert known(tokenizer.encode(text).ids, len(dictionary)) == expected, ascii(text)


def with_words(words):
    dictionary = Dictionary()
    for word in [*words, "<mask>"]:
        dictionary.add_symbol(word)
    return dictionary


def test_words_that_fill_the_vocabulary_up_and_pieces_that_it_lacks(pieces):
    model, dictionary = pieces
    names = [word for word in dictionary.symbols[4:-1] if word not in ("n", "th", "\u2581the")]
    cut = with_words([*names, "madeupword0000", "madeupword0001"])
    with pytest.raises(ValueError, match="padded: 2 words of the dictionary, such as madeupword00"):
        build_tokenizer("sentencepiece", [model], cut.symbols, 64)
    with pytest.raises(ValueError, match="pieces that the dictionary lacks, such as .*n"):
        build_tokenizer("sentencepiece", [model], cut.symbols, 64, padded_vocabulary=True)
    files = build_tokenizer("sentencepiece", [model], cut.symbols, 64, True, unlisted=True)
    lacking = len(dictionary) - len(names) - 5
    assert count_unlisted(files) == lacking > 0
    tokenizer = from_files(files)
    assert tokenizer.get_vocab_size() == len(cut) + lacking
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=model))
    agree(tokenizer, cut, lambda line: bpe.encode(line).split(" "), [*TEXT, *STRANGE])


def test_pieces_of_gpt2(tmp_path):
    write_gpt2(tmp_path)
    paths = [str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe")]
    dictionary = read_dictionary(tmp_path / "theirs.txt")
    tokenizer = from_files(build_tokenizer("gpt2", paths, dictionary.symbols, 64, True, True))
    agree(tokenizer, dictionary, Gpt2Bpe(*paths).split, [*TEXT, *STRANGE, " the a theta", "<s"])
    text = "The quick brown fox the a theta"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


AUTHORS = [
    "rock’n’roll isn’t a’b’c’d", 'He said, "Yes," and "no".', "etc.) and e.g.", "a.@b x.y.@z",
    "u.s.'s vs.'x 1's 5'10\" a''b 'tis y'all've", "1,000,000 a,b 1,a a,1 ,,, ,. ..,", "....a",
    "see www.example.org/x?y=1, http://a.b/c. or ftp://x.y!", "foo.com bit.ly nets.com $a.com",
    "me@example.com my-file_name.pdf report.doc readme.txt", "*a **b * c *", "(a) ((b)) [c] {d}",
    "$5 %6 7 % &c #tag @you a/b a\\b a_b __init__ ~x", "-- a--b - -x x- co-op-erate", "`a` ``b''",
    "wait.... what..... no.. yes...", "ΣΑΣ ΟΔΟΣ Σ ß İ", "„a“ ‚b‘ ´c´ … —– «d»", "½ ² Ⅷ ٣ १,२",
    "a : b ; c ) . d ( e", "<url> <file> <unk", "'" * 9 + "a", "<< a >> <<b>>",
]  # fmt: skip


def test_pieces_of_the_authors_codes(tmp_path):
    pytest.importorskip("sacremoses", reason="sacremoses is not installed")
    codes = tmp_path / "bpecodes"
    codes.write_text(codes_for(["the", "quick", "dog", "example", "'t", "...", "file", "u.s."]))
    words = ["the", "quick", "dog", "<url>", "<file>", "a", "b", "s", ",", ".", "'", "'t", "u.s."]
    dictionary = with_words([*words, "th@@", "e", "a@@", "t", "madeupword0000"])
    with pytest.raises(ValueError, match="bpecodes has .* pieces that the dictionary lacks"):
        build_tokenizer("fastbpe", [str(codes)], dictionary.symbols, 64, True)
    files = build_tokenizer("fastbpe", [str(codes)], dictionary.symbols, 64, True, unlisted=True)
    tokenizer = from_files(files)
    agree(tokenizer, dictionary, FastBpe(str(codes)).split, [*TEXT, *STRANGE, *AUTHORS])
    ids = tokenizer.encode("The quick dog www.x.org, u.s. lists.txt").ids
    assert tokenizer.decode(ids) == "the quick dog <url> , u.s . <file>"
    again = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    assert all(again.encode(line).ids == tokenizer.encode(line).ids for line in AUTHORS)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s[:3] + s[4:], "the dictionary begins with <s>, <pad>, </s>, .* instead of"),
        (lambda s: s[:-1], "the dictionary has no <mask>"),
        (lambda s: [*s, "e"], "the dictionary has e twice"),
    ],
)
def test_a_dictionary_that_does_not_fit(change, message, pieces):
    model, dictionary = pieces
    with pytest.raises(ValueError, match=message):
        build_tokenizer("sentencepiece", [model], change(dictionary.symbols), 64)


def test_a_sentencepiece_model_of_characters(tmp_path):
    model, dictionary = write_pieces(tmp_path, "char")
    with pytest.raises(ValueError, match="is a SentencePiece model of characters or words"):
        build_tokenizer("sentencepiece", [model], dictionary.symbols, 64)
