"""fairseq's dictionary as a tokenizer needs it, and what it refuses."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, FILLER, MASK
from tupe_fairseq.files.repeated import first_repeated


class SymbolsInOrder(NamedTuple):
    """The symbols of a dictionary, whose places are their ids.

    Args:
        symbols (list of str): all of them: the built-in ones, the words of dict.txt, the mask.
        unlisted (list of str): pieces that text can be split into and the dictionary lacks; they
            have the ids after it.
    """

    symbols: list[str]
    unlisted: list[str]

    @property
    def words(self) -> list[str]:
        """The words of dict.txt, without the mask."""
        return [word for word in self.symbols[len(BUILT_IN_SYMBOLS) :] if word != MASK]


def check_symbols(symbols: Sequence[str], padded_vocabulary: bool) -> SymbolsInOrder:
    """The symbols, if they are those of a dictionary of masked language modelling.

    Args:
        symbols (list of str): in the order of their ids.
        padded_vocabulary (bool): whether words that only fill the vocabulary up are allowed.
    Raises:
        ValueError: if they do not begin with the built-in ones, have no mask, repeat a symbol, or
            have such words.
    """
    found = SymbolsInOrder(list(symbols), [])
    if tuple(found.symbols[: len(BUILT_IN_SYMBOLS)]) != BUILT_IN_SYMBOLS:
        raise ValueError(
            f"the dictionary begins with {', '.join(found.symbols[:4])} instead of "
            f"{', '.join(BUILT_IN_SYMBOLS)}"
        )
    if MASK not in found.symbols:
        raise ValueError(f"the dictionary has no {MASK}")
    repeated = first_repeated(found.symbols)
    if repeated is not None:
        raise ValueError(f"the dictionary has {repeated} twice")
    fillers = [word for word in found.words if FILLER.fullmatch(word)]
    if fillers and not padded_vocabulary:
        raise ValueError(
            f"the vocabulary was padded: {len(fillers)} words of the dictionary, such as "
            f"{fillers[0]}, are in no text; fairseq-preprocess adds them to reach a multiple of "
            "--padding-factor"
        )
    return found


def with_unlisted(
    order: SymbolsInOrder, pieces: Iterable[str], source: str, allowed: bool
) -> SymbolsInOrder:
    """Add the pieces that the dictionary lacks.

    Args:
        order (SymbolsInOrder): the dictionary.
        pieces (iterable of str): what text can be split into, by the names in the dictionary.
        source (str): the file that they come from.
        allowed (bool): whether there may be any that the dictionary lacks.
    Raises:
        ValueError: if there are any, and they are not allowed.
    """
    listed = set(order.symbols)
    unlisted = [piece for piece in dict.fromkeys(pieces) if piece not in listed]
    if unlisted and not allowed:
        raise ValueError(
            f"{source} has {len(unlisted)} pieces that the dictionary lacks, such as "
            f"{', '.join(unlisted[:3])}; fairseq takes them for <unk>, a tokenizer cannot"
        )
    return order._replace(unlisted=unlisted)
