"""Cleaning blocks of raw text."""

import random
import unicodedata

import pytest

from tupe_fairseq.text.cleaning import Cleaner, clean_file, line_hash
from tupe_fairseq.text.treatment import TextTreatment


def clean(text, **settings):
    block = text if isinstance(text, bytes) else text.encode()
    result = Cleaner(TextTreatment(settings.pop("lowercase", False)), **settings)(block)
    return result.lines.content.decode(), result.counts


def test_characters_and_white_space():
    text, counts = clean("\ufeff A\u00a0 b\tc\r\n\x00\u200bd\u0301 e\x85f\u2028g \n")
    assert text == "A b c\nd\u0301 e f g\n"
    assert counts["read"] == 2


def test_normal_form():
    assert clean("cafe\u0301\n")[0] == "caf\u00e9\n"


def test_blank_lines_separate_documents():
    cleaner = Cleaner(TextTreatment())
    result = cleaner(b"\n\n \t\na\nb\n\xc2\xa0\n\xe2\x80\x8b\n\nc\n\n\n")
    assert result.lines.content == b"\na\nb\n\nc\n\n"
    assert result.lines.documents == 2
    assert result.counts["read"] == 3
    assert result.hashes == line_hash(b"a") + line_hash(b"b") + line_hash(b"c")


def test_invalid_utf8_is_dropped_and_counted():
    text, counts = clean(b"good\nbad \xff\nw\xc3\xb6rter\ncut \xc3\n\nend\n")
    assert text == "good\nw\u00f6rter\n\nend\n"
    assert (counts["read"], counts["invalid_utf8"]) == (5, 2)


def test_lengths_count_characters_after_the_treatment():
    text, counts = clean("\u00e9\u00e9\u00e9\n  a   b\u200b \nabcd\nab\n", min_chars=3, max_chars=3)
    assert text == "\u00e9\u00e9\u00e9\na b\n"
    assert (counts["too_short"], counts["too_long"]) == (1, 1)


def test_a_dropped_line_does_not_end_the_document():
    assert clean("one\nx\ntwo\n", min_chars=2)[0] == "one\ntwo\n"


def test_a_document_that_loses_all_lines_vanishes():
    result = Cleaner(TextTreatment(), min_chars=2)(b"one\n\nx\n\ny\n\ntwo\n")
    assert result.lines.content == b"one\n\ntwo\n"
    assert result.lines.documents == 2


def test_lower_case():
    assert clean("\u00c4PFEL \u03a3\u03a3\n", lowercase=True)[0] == "\u00e4pfel \u03c3\u03c2\n"


@pytest.mark.parametrize("mask", ["<mask>", "<MASK>", "<\u200bmask>"])
def test_the_mask_symbol_is_broken_up(mask):
    assert "<mask>" not in clean(f"a {mask} b\n")[0].lower()


def test_sentences():
    text, counts = clean("Mr. Smith came. He left! Why?\n\nOne.\n", split_language="en")
    assert text == "Mr. Smith came.\nHe left!\nWhy?\n\nOne.\n"
    assert (counts["read"], counts["split_off"]) == (2, 2)


@pytest.mark.parametrize("language", ["xx", "english", "../en"])
def test_unknown_language(language):
    with pytest.raises(ValueError, match=f"no rules to split sentences of language '{language}'"):
        Cleaner(TextTreatment(), language)


@pytest.mark.parametrize("lowercase", [False, True], ids=["case", "lowercase"])
def test_a_block_is_cleaned_as_its_lines_are(lowercase):
    random_ = random.Random(5)
    letters = [chr(i) for i in range(0x250)] + list(
        " \t\n\n\u0301\u0308\u03a3\u2028\u3000\ufeff<mask>"
    )
    letters += [chr(random_.randrange(0x250, 0xD800)) for _ in range(2000)]
    treatment = TextTreatment(lowercase)
    for _ in range(20):
        text = "".join(random_.choices(letters, k=3000)) + "\n"
        lines = [treatment.apply(line) for line in text.split("\n")]
        assert clean(text, lowercase=lowercase)[0].split("\n")[:-1] == [
            line for i, line in enumerate(lines[:-1]) if line or i == 0 or lines[i - 1]
        ]
        assert all(unicodedata.is_normalized("NFC", line) for line in lines)


class Bar:
    n = 0

    def update(self, step):
        self.n += step


@pytest.mark.parametrize("workers", [1, 2])
def test_file(workers, tmp_path, monkeypatch):
    monkeypatch.setattr("tupe_fairseq.text.reading.BLOCK_BYTES", 64)
    monkeypatch.setattr("tupe_fairseq.text.reading.LINE_BYTES", 1000)
    text = b"\n".join(b"line %d \n\n" % i if i % 3 else b"line\t%d" % i for i in range(300))
    (tmp_path / "raw").write_bytes(text + b"x" * 5000)
    bar = Bar()
    prefix = str(tmp_path / "clean")
    counts = clean_file(str(tmp_path / "raw"), Cleaner(TextTreatment()), prefix, workers, bar)
    documents = (tmp_path / "clean.txt").read_text().split("\n\n")
    lines = [line for document in documents for line in document.strip("\n").split("\n")]
    assert lines == [f"line {i}" for i in range(300)]
    assert (tmp_path / "clean.hash").read_bytes() == b"".join(line_hash(x.encode()) for x in lines)
    assert counts["documents"] == len(documents) == 200
    assert (counts["read"], counts["too_long"]) == (301, 1)
    assert bar.n == (tmp_path / "raw").stat().st_size
