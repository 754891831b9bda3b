"""The clean-up of text, and that it is applied again to the text of a trained model."""

import json
import re
import shutil
import unicodedata

import pytest

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from helpers.glue_files import write_pretrain_dir
from tupe_fairseq.text.to_pieces import ToPieces
from tupe_fairseq.text.treatment import _NOT_PRINTING, TextTreatment, one_line


@pytest.mark.parametrize(
    "text, expected",
    [
        ("cafe\u0301", "caf\u00e9"),
        ("\ufb01ve \u00bd \u2460 \uff21", "\ufb01ve \u00bd \u2460 \uff21"),  # NFKC changes these
        (" a \t\u00a0 b\u3000c ", "a b c"),
        ("a \n b", "a\nb"),
        ("a\u00adb\u200bc\x00\ufffd", "abc"),
        ("\u0645\u200c\u0646", "\u0645\u200c\u0646"),
        ("<mask> <MASK> <s>", "< mask> < MASK> <s>"),
        ("STRASSE \u0130", "STRASSE \u0130"),
    ],
)
def test_treatment(text, expected):
    assert TextTreatment().apply(text) == expected


def test_lower_case():
    assert TextTreatment(lowercase=True).apply("\u00c9TUDE <MASK>") == "\u00e9tude < mask>"


_PARTS = [
    *map(chr, range(128)), *"   \n\n", "<mask>", "<", "MASK>", "\x85", "\xa0", "\u3000", "\u2028",
    "\u200b", "\ufeff", "e\u0301", "\u0301", "Σ", "ΑΣ", "İ", "<ma\u017fk>", "<mas\u212a>", "日",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(_PARTS), max_size=20).map("".join)


@drawn(300, text=TEXTS | st.text(max_size=30), lowercase=st.booleans())
def test_ascii_or_not_by_one_rule(text, lowercase):
    """Line by line, as the docstring says, by one way for every character."""
    lines = re.sub(r"[^\S\n]+", " ", _NOT_PRINTING.sub("", text)).split("\n")
    lines = [unicodedata.normalize("NFC", line) for line in lines]
    lines = [line.lower() if lowercase else line for line in lines]
    lines = [re.sub("<(?=mask>)", "< ", line, flags=re.IGNORECASE).strip(" ") for line in lines]
    assert TextTreatment(lowercase).apply(text) == "\n".join(lines)


def test_one_line():
    assert one_line("a \r\n\n b\nc") == "a b c"
    assert one_line("a \r\t b") == "a \r\t b"  # the treatment's part


def test_of_another_version_is_refused():
    for recorded in ({"unicode": "NFKC", "lowercase": False}, {"lowercase": True}, {"new": 1}):
        with pytest.raises(ValueError, match="^report.json: .* is unknown to this version"):
            TextTreatment.from_dict(recorded, "report.json")
    assert TextTreatment.from_dict({"unicode": "NFC", "lowercase": True}, "").lowercase is True


def test_text_for_a_model_is_treated_as_was_recorded(tmp_path):
    """Of the same pieces, in whose vocabulary both cases are."""
    cased = write_pretrain_dir(tmp_path / "cased")
    lower = shutil.copytree(cased, tmp_path / "lower")
    record = {"text_treatment": {"unicode": "NFC", "lowercase": True}}
    (lower / "report.json").write_text(json.dumps(record))
    found = {folder: ToPieces(str(folder), str(folder)) for folder in (cased, lower)}
    assert found[cased]("The CAT") != found[cased]("the cat")
    assert found[lower]("The CAT") == found[lower]("the cat") == found[cased]("the cat")
    # without a record: nothing but the usual
    (lower / "report.json").unlink()
    assert ToPieces(str(lower), str(lower))("The CAT") == found[cased]("The CAT")
