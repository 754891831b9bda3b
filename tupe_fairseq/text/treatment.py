"""The clean-up that pre-training text and every text given to the model later must share."""

import re
import unicodedata
from typing import Any

# White space that is not one single space; a single one would match most often and change nothing.
_SPACE = re.compile(r" [^\S\n]+|[^\S\n ][^\S\n]*")
_LINE_ENDS = re.compile(r"\s*\n\s*")
# Control and format characters, surrogates, private use, non-characters and the replacement
# character.  Listed here, because unicodedata's categories differ between versions of Python.
# U+200C and U+200D stay: they distinguish words in Persian and in Indian scripts.
_NOT_PRINTING = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ud800-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]+"
)
# The same two of ASCII: what of it does not print, and what becomes a space.
_DELETED = bytes(number for number in range(128) if _NOT_PRINTING.fullmatch(chr(number)))
_SPACES = bytes(
    32 if number < 128 and chr(number).isspace() and chr(number) != "\n" else number
    for number in range(256)
)
# SentencePiece takes this for the mask symbol anywhere in a text.
_MASK = re.compile("<(?=mask>)", re.IGNORECASE)


class TextTreatment:
    """The treatment of text before it is split into pieces.

    Unicode NFC; control, format and other non-printing characters removed; every run of white
    space made one space; ``<mask>`` in the text itself written ``< mask>``; optionally lower case.

    Args:
        lowercase (bool): whether to make the text lower case.
    """

    def __init__(self, lowercase: bool = False):
        self.lowercase = lowercase

    def apply(self, text: str) -> str:
        """The treated text; line feeds are kept, without spaces around them or at the ends."""
        if text.isascii():
            return self._apply_to_ascii(text)
        # what is done to a line does not depend on others, and what is ASCII needs less
        lines = text.split("\n")
        for of_ascii, apply in ((True, self._apply_to_ascii), (False, self._apply_to_any)):
            places = [n for n, line in enumerate(lines) if line.isascii() is of_ascii]
            treated = apply("\n".join([lines[n] for n in places])).split("\n")
            for place, line in zip(places, treated):
                lines[place] = line
        return "\n".join(lines)

    def _apply_to_any(self, text: str) -> str:
        text = _SPACE.sub(" ", _NOT_PRINTING.sub("", text))
        return self._finish(unicodedata.normalize("NFC", text))

    def _apply_to_ascii(self, text: str) -> str:
        """The same result, without regular expressions, which look at each character by itself."""
        content = text.encode().translate(_SPACES, _DELETED)
        while b"  " in content:
            content = content.replace(b"  ", b" ")
        return self._finish(content.decode())

    def _finish(self, text: str) -> str:
        if self.lowercase:
            text = text.lower()
        text = _MASK.sub("< ", text)
        return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")

    def to_dict(self) -> dict[str, Any]:
        """As recorded in report.json under ``text_treatment``."""
        return {"unicode": "NFC", "lowercase": self.lowercase}

    @classmethod
    def from_dict(cls, recorded: dict[str, Any], path: str = "report.json") -> "TextTreatment":
        """The treatment that :meth:`to_dict` recorded.

        Args:
            recorded (dict): what it gave.
            path (str): where it is recorded, for the message.
        Raises:
            ValueError: if it was recorded by a version that treats text differently.
        """
        treatment = cls(bool(recorded.get("lowercase", False)))
        if treatment.to_dict() != recorded:
            raise ValueError(
                f"{path}: the text treatment {recorded} is unknown to this version of tupe_fairseq"
            )
        return treatment


def one_line(text: str) -> str:
    """A text of several lines, such as a field in quotes, as one; to be treated afterwards."""
    return _LINE_ENDS.sub(" ", text) if "\n" in text else text


class AsItIs:
    """No treatment but white space taken off both ends of a line.

    For the vocabularies of other programs: the text that they were learnt from was not treated as
    here, and what belongs to a vocabulary, such as lower case, is done when it splits a line.
    """

    def apply(self, text: str) -> str:
        """The text with each line stripped."""
        return "\n".join(line.strip() for line in text.split("\n"))

    def to_dict(self) -> dict[str, Any]:
        """As recorded in report.json under ``text_treatment``."""
        return {"unicode": "as it is", "lowercase": False}
