"""Exported tokenizers give the ids of fairseq's hub interface."""

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from transformers import AutoTokenizer

from helpers.vocabularies import write_gpt2
from tupe_fairseq.data.subwords import Gpt2Bpe, learn_sentencepiece
from tupe_fairseq.data.text_files import clean_line
from tupe_fairseq.export.tokenizer import build_tokenizer, dictionary_words

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
    "▁", "▁▁a", "a▁b", "a ▁ b", "▁\u0301 a▁\u0301b",
    "a" * 300, "ab" * 200, "x-" * 100, "....", "--------", "''\"\"``",
    "☃", "☃☃", "☃ ☃", "☃a☃", "ẞß", "ΣΑΣ", "ǅ", "don't", "madeupword0000", "< mask >", "<sep>",
    "<unk", "s>", "</", "&amp; &lt;s&gt;", "\\n", "a/b\\c", "100,000.00", "co-op", "e.g. this",
    "Schiff\u00adfahrt", "a\u2060b", "\u202eabc", "a\x0bb", "a\x1cb", " lead", "trail ",
    "a \n b", "\u3000a",
]  # fmt: skip


def hub_ids(dictionary, line):
    """As fairseq's RobertaHubInterface.encode."""
    line = f"<s> {line} </s>"
    return dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist()


def known(encoded, dictionary):
    """The ids, with <unk> for tokens that the dictionary lacks."""
    return [x if x < len(dictionary) else dictionary.unk() for x in encoded["input_ids"]]


def assert_same_ids(tokenizer, dictionary, split, texts):
    for text in texts:
        assert known(tokenizer(text), dictionary) == hub_ids(dictionary, split(text)), ascii(text)


def assert_offsets_point_at_the_text(tokenizer, texts):
    """Questions need them, to find an answer in its text."""
    for text in texts:
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        for token, (start, end) in zip(found["input_ids"], found["offset_mapping"]):
            # a space alone has the place of the next character
            allowed = (text[start:end].strip(), "", "<unk>")
            assert tokenizer.decode([token]).strip() in allowed, ascii(text)


def test_a_dictionary_with_characters_that_the_model_lacks(tmp_path):
    """As fairseq-preprocess makes it: of several in a row SentencePiece makes one token."""
    path, dictionary = str(tmp_path / "spm.model"), Dictionary()
    with open(path, "wb") as file:
        file.write(learn_sentencepiece(TEXT, 90, "unigram", 1.0, False))
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=path))
    words = [bpe.sp.id_to_piece(number) for number in range(4, 90) if number != 20]
    for word in (*words, "日本", "日", "\u2603", "Я", "]^\\-", "madeupword0000"):
        dictionary.add_symbol(word)
    texts = [
        *TEXT,
        *STRANGE,
        "日本",
        "a日本b",
        "日 本日 日本日",
        "日\x85本日本",
        "Я<mask>日日",
        "ЯЯ]^\\-Я",
    ]
    tokenizer, unlisted = build_tokenizer({"kind": "sentencepiece"}, [path], dictionary.symbols, 64)
    assert unlisted == 1
    tokens = bpe.encode("a日本b 日 日日 Я").split()
    assert sum(x in tokens for x in ("日本", "日", "日日", "Я")) == 4
    assert_same_ids(tokenizer, dictionary, bpe.encode, [x for x in texts if "<mask>" not in x])
    assert known(tokenizer("Я<mask>日日"), dictionary)[2:-1] == [
        dictionary.index("Я"), dictionary.index("<mask>"), dictionary.index("\u2581"), 3,
    ]  # fmt: skip
    ids = tokenizer("a日本b Я", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == "a日本b Я"
    tokenizer.save_pretrained(tmp_path)
    words = dictionary_words(str(tmp_path / "tokenizer.json"), unlisted, None)
    assert words == dictionary.symbols[4:]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "unigram lower", "bpe lower"])
def test_sentencepiece(kind, tmp_path):
    """With a dictionary that lacks some tokens."""
    path, (model_type, _, lower) = str(tmp_path / "spm.model"), kind.partition(" ")
    # few tokens beyond characters: a small text often has two segmentations with equal scores, and
    # SentencePiece's choice between them depends on rounding to 32 bits
    size = 90 if model_type == "unigram" else 150
    lines = [line for count, line in enumerate(TEXT, 7) for _ in range(count)]
    with open(path, "wb") as file:
        file.write(learn_sentencepiece(lines, size, model_type, 1.0, bool(lower)))
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=path))
    dictionary = Dictionary()
    words = [bpe.sp.id_to_piece(number) for number in range(4, size)]
    for word in words:
        if word not in ("n", "th", "\u2581the", "<mask>"):
            dictionary.add_symbol(word)
    for word in ("madeupword0000", "<mask>"):
        dictionary.add_symbol(word)

    record = {"kind": "sentencepiece"}
    tokenizer, unlisted = build_tokenizer(record, [path], dictionary.symbols, 64)
    assert unlisted > 0 and len(tokenizer) == len(dictionary) + unlisted
    ids = tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "<mask>"])
    assert ids == [0, 1, dictionary.index("<mask>")]
    assert tokenizer.model_max_length == 64 and tokenizer.padding_side == "right"
    assert_same_ids(tokenizer, dictionary, bpe.encode, [*TEXT, *STRANGE])
    record.update(clean=True, lowercase=bool(lower))
    cleaned, _ = build_tokenizer(record, [path], dictionary.symbols, 64)
    texts = [*TEXT, *STRANGE, "<MASK> it"]
    split = lambda text: bpe.encode(clean_line(text, bool(lower)))  # noqa: E731
    assert_same_ids(cleaned, dictionary, split, texts)
    spaced = [f"  {text.lower()} ".replace(" ", "  ") for text in TEXT]
    assert_offsets_point_at_the_text(cleaned, [text.lower() for text in TEXT] + spaced)
    first, second = TEXT[:2]
    encoded = tokenizer(first, second)
    pair = f"{bpe.encode(first)} </s> </s> {bpe.encode(second)}"
    assert known(encoded, dictionary) == hub_ids(dictionary, pair)
    assert set(encoded) == {"input_ids", "attention_mask"}
    for text in ("a <mask> fox", "<mask>", " <mask> .", "a<mask>b", "a <mask>, b", "a  <mask>"):
        # as in RobertaHubInterface.fill_mask
        spans = [bpe.encode(span.rstrip()) for span in text.split("<mask>")]
        assert known(tokenizer(text), dictionary) == hub_ids(dictionary, " <mask> ".join(spans))

    tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert all(again(text)["input_ids"] == tokenizer(text)["input_ids"] for text in STRANGE)
    assert again.decode(again("x-a is", add_special_tokens=False)["input_ids"]) == "x-a is"
    words = dictionary_words(str(tmp_path / "saved" / "tokenizer.json"), unlisted, None)
    assert words == dictionary.symbols[4:-1]


def test_gpt2(tmp_path):
    write_gpt2(tmp_path)
    paths = [str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe")]
    dictionary = Dictionary.load(str(tmp_path / "theirs.txt"))
    dictionary.add_symbol("<mask>")
    tokenizer, _ = build_tokenizer({"kind": "gpt2"}, paths, dictionary.symbols, 64)
    bpe = Gpt2Bpe(*paths)
    texts = [*TEXT, *STRANGE, " the a theta", "<s"]
    assert_same_ids(tokenizer, dictionary, lambda text: " ".join(bpe.split(text)), texts)
    assert_offsets_point_at_the_text(tokenizer, filter(str.isascii, TEXT))
    text = "The quick brown fox the a theta"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
