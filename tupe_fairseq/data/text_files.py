"""Reads raw text: lines and documents of plain or compressed files, JSON lines and parquet."""

import re
import unicodedata

# Control, format and private characters, surrogates, non-characters, the replacement character:
# a list, because unicodedata differs between versions of Python. U+200C and U+200D stay: they
# distinguish words in Persian and in Indian scripts.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ud800-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]+"
)
# SentencePiece takes this for the mask token anywhere in a text
_MASK = re.compile("<(?=mask>)", re.IGNORECASE)


def clean_line(line: str, lowercase: bool = False) -> str:
    """A line as our vocabularies are learned from it and our models get it.

    Unicode NFC, no unprintable characters, single spaces, ``<mask>`` written ``< mask>``.
    """
    if not line.isascii():
        line = unicodedata.normalize("NFC", _UNPRINTABLE.sub("", line))
    elif not line.isprintable():
        line = _UNPRINTABLE.sub("", line)
    line = " ".join(line.split())
    if lowercase:
        line = line.lower()
    return _MASK.sub("< ", line) if "<" in line else line
