"""A foreign dict.txt, and the one that means the same to stock fairseq."""

from typing import List, Sequence

from tupe_fairseq.checkpoint.restricted_load import CheckpointError

FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")


def convert_dictionary(lines: List[str], path: str, hidden: Sequence[str] = ()) -> List[str]:
    """The dict.txt that gives every word the id that it had there.

    Args:
        lines (list of str): their dict.txt.
        path (str): its name, for messages.
        hidden (sequence of str): the symbols that their code has after fairseq's four without
            listing them in dict.txt; none in stock fairseq, whose file is right as it is.
    Raises:
        CheckpointError: if a line is not "symbol count", or a symbol is a built-in one or listed
            twice.
    """
    seen = {*FAIRSEQ_SYMBOLS, *hidden}
    for number, line in enumerate(lines, 1):
        symbol, _, count = line.rpartition(" ")
        if not symbol or not count.isdigit():
            raise CheckpointError(f"{path}, line {number}: {line!r} is not 'symbol count'")
        if symbol in seen:
            raise CheckpointError(f"{path}, line {number}: {symbol!r} is built in or listed twice")
        seen.add(symbol)
    return [f"{symbol} 0" for symbol in hidden] + lines
