"""The TUPE authors' dict.txt, and the one that means the same to stock fairseq."""

from typing import List

from tupe_fairseq.checkpoint.restricted_load import CheckpointError

FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
# Their Dictionary has these symbols after fairseq's four, without listing them in dict.txt.
HIDDEN_SYMBOLS = ("<file>", "<email>", "<url>")


def convert_dictionary(lines: List[str], path: str) -> List[str]:
    """The dict.txt that gives every word the id that it had there.

    Args:
        lines (list of str): their dict.txt.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if a line is not "symbol count", or a symbol is a built-in one or listed
            twice.
    """
    seen = {*FAIRSEQ_SYMBOLS, *HIDDEN_SYMBOLS}
    for number, line in enumerate(lines, 1):
        symbol, _, count = line.rpartition(" ")
        if not symbol or not count.isdigit():
            raise CheckpointError(f"{path}, line {number}: {line!r} is not 'symbol count'")
        if symbol in seen:
            raise CheckpointError(f"{path}, line {number}: {symbol!r} is built in or listed twice")
        seen.add(symbol)
    return [f"{symbol} 0" for symbol in HIDDEN_SYMBOLS] + lines


def vocabulary_size(lines: List[str]) -> int:
    """Symbols of their dictionary with these lines, the built-in ones and ``<mask>`` included."""
    has_mask = any(line.startswith("<mask> ") for line in lines)
    return len(FAIRSEQ_SYMBOLS) + len(HIDDEN_SYMBOLS) + len(lines) + (not has_mask)
