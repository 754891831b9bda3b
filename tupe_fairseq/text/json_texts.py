"""Reads the text of one field of every JSON object of a file, one object per line."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tupe_fairseq.text.reading import TextFile

#: a longer object is refused; a block of lines is not much longer than its longest one
OBJECT_BYTES = 32 << 20
_MOST_NAMES = 10
_KINDS = {bool: "true or false", type(None): "null", list: "a list", dict: "an object"}
# JSON can name half of a character beyond U+FFFF, which no text has
_HALVES = re.compile("[\ud800-\udfff]")


class JsonTexts:
    """The texts of a plain, .gz, .xz or .bz2 file of JSON lines, in blocks.

    Args:
        path (str): the file.
        field (str): the name of the text in each object.
    Raises:
        OSError, ValueError: as :class:`TextFile`.

    Attributes:
        too_long (int): 0; nothing is skipped.
        bytes_read (int): the position of :meth:`blocks` in the file, in bytes as stored.
    """

    too_long = 0

    def __init__(self, path: str, field: str):
        self._file = TextFile(path, OBJECT_BYTES)
        self._field = field

    @property
    def bytes_read(self) -> int:
        return self._file.bytes_read

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of about 1 MiB: the number of the first line, and whole lines.

        Raises:
            OSError, ValueError: as those of :class:`TextFile`; or a line exceeds 32 MiB.
        """
        number = 1
        for block in self._file.blocks():
            yield number, block
            number += block.count(b"\n")

    def texts(self, block: tuple[int, bytes]) -> tuple[list[str], int]:
        """The texts of a block, and how many lines are left out because they are not UTF-8.

        Blank lines are none.

        Raises:
            ValueError: if a line is no JSON object, or its field is missing or no text; the
                message names the file and the line.
        """
        first, content = block
        path, field = self._file.path, self._field
        texts = []
        invalid = 0
        for number, line in enumerate(_decoded_lines(content), first):
            if line is None:
                invalid += 1
            elif line and not line.isspace():
                values = json_object(line, path, number)
                text = values.get(field)
                if not isinstance(text, str):
                    raise ValueError(f"{path}, line {number}: {_no_text(values, field)}")
                texts.append(text)
        if b"\\ud" in content or b"\\uD" in content:
            texts = [_HALVES.sub("", text) for text in texts]
        return texts, invalid


def json_object(line: str, path: str, number: int) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        line (str): what should hold one; a byte order mark may begin the first of a file.
        path (str), number (int): the file and the line, for messages.
    Raises:
        ValueError: if it is not JSON, or another kind of value.
    """
    place = f"{path}, line {number}"
    try:
        value = json.loads(line.lstrip("\ufeff") if number == 1 else line)
    except RecursionError as error:
        raise ValueError(f"{place} is nested too deep") from error
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.pos + 1}"
        raise ValueError(f"{place} is not JSON: {reason}; {_ONE_PER_LINE}") from error
    except ValueError as error:  # of a number of thousands of digits
        raise ValueError(f"{place} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{place} is {kind_of(value)}, not a JSON object; {_ONE_PER_LINE}")
    return value


_ONE_PER_LINE = "give one object per line (of a list: jq -c '.[]')"


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), "a text" if isinstance(value, str) else "a number")


def names_of(names) -> str:
    """Names of fields or columns, as a message lists them."""
    listed = list(map(repr, names))
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return (", ".join(listed[:_MOST_NAMES]) or "none") + more


def _no_text(values: dict[str, Any], field: str) -> str:
    if field in values:
        return f"--text-field {field} is {kind_of(values[field])}, not a text"
    return f"there is no field {field!r} (--text-field); the fields are {names_of(values)}"


def _decoded_lines(content: bytes) -> list[str | None]:
    """The lines; None for those that are not UTF-8."""
    try:
        decoded = content.decode()
    except UnicodeDecodeError:
        return [_decoded(line) for line in content.split(b"\n")[:-1]]
    return list(decoded.split("\n")[:-1])


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
