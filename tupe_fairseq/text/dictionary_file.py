"""Reads the words of a dict.txt, as strictly as we write it."""

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.files.repeated import first_repeated

# Python refuses to read numbers of thousands
_MOST_DIGITS = 100


def listed_words(path: str) -> list[str]:
    """The words, in order.

    fairseq takes more than this for a dictionary: negative counts, and its mark by which a later
    line replaces an earlier one.  Both make other ids than the lines say.

    Args:
        path (str): lines of a word and its count.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not such a file, or lists a word twice; the message has the number of
            the line, or the word.
    """
    with open(path, "rb") as file:
        try:
            # a carriage return, too, ends a line for fairseq, which would find other words
            lines = file.read().decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not a text file in UTF-8") from error
    if lines[-1] == "":
        lines.pop()
    words = []
    for number, line in enumerate(lines, 1):
        word, _, count = line.rstrip().rpartition(" ")
        is_count = count.isascii() and count.isdigit() and len(count) <= _MOST_DIGITS
        if not word or not is_count:
            raise ValueError(
                f"{path}, line {number}: {line[:50]!r} is not a word and its count, a whole number"
            )
        words.append(word)
    twice = first_repeated(words)
    if twice is not None:
        raise ValueError(f"{path} lists {twice[:50]!r} twice")
    return words


def dictionary_ids(path: str) -> dict[str, int]:
    """The id of each symbol of fairseq's dictionary for a dict.txt, the built-in ones included.

    Raises:
        OSError, ValueError: as :func:`listed_words`; or if it lists a built-in symbol.
    """
    symbols = [*BUILT_IN_SYMBOLS, *listed_words(path)]
    twice = first_repeated(symbols)
    if twice is not None:
        raise ValueError(f"{path} lists {twice}, which fairseq's dictionary has of itself")
    return {symbol: number for number, symbol in enumerate(symbols)}
