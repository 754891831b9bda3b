"""A tokenizer with the pieces of fastBPE's codes, after the TUPE authors' treatment of text."""

from typing import Any

from tupe_fairseq.data.subwords import read_codes
from tupe_fairseq.export.tokenizer.symbols_in_order import SymbolsInOrder, with_unlisted
from tupe_fairseq.export.tokenizer.tokenizer_files import (
    bpe_model,
    replace_string,
    tokenizer_json,
)
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK

_END = "</w>"
_CONTINUED = "@@"


def fastbpe_tokenizer(order: SymbolsInOrder, codes: str, allow_unlisted: bool):
    """The dictionary with the pieces that it lacks, and the text of tokenizer.json.

    fastBPE marks a piece that a word goes on after, the library one that a word ends with.

    Args:
        order (SymbolsInOrder): the dictionary.
        codes (str): the file of codes.
        allow_unlisted (bool): whether the codes may make pieces that the dictionary lacks.
    Raises:
        ModuleNotFoundError: if sacremoses, whose rules are written down, is not installed.
        ValueError: if there are pieces that the dictionary lacks, and may not be.
    """
    from tupe_fairseq.export.tokenizer.authors_rules import (
        STAND_INS,
        authors_normalizers,
        authors_pre_tokenizers,
    )

    pairs = list(dict.fromkeys(read_codes(codes)))
    made = dict.fromkeys(piece for left, right in pairs for piece in (left, right, left + right))
    order = with_unlisted(order, map(_name, made), codes, allow_unlisted)
    vocabulary = {}
    for id_, symbol in enumerate([*order.symbols, *order.unlisted]):
        vocabulary[_piece(symbol, STAND_INS)] = id_
    words: dict[str, Any] = {"type": "BPEDecoder", "suffix": _END}
    symbols = [replace_string(stand_in, symbol) for symbol, stand_in in STAND_INS.items()]
    content = tokenizer_json(
        order,
        authors_normalizers(),
        authors_pre_tokenizers(),
        bpe_model(vocabulary, [list(pair) for pair in pairs], end_of_word_suffix=_END),
        {"type": "Sequence", "decoders": [words, *symbols]},
    )
    return order, content


def _name(piece: str) -> str:
    """A piece's name in dict.txt."""
    return piece[: -len(_END)] if piece.endswith(_END) else piece + _CONTINUED


def _piece(name: str, stand_ins: dict[str, str]) -> str:
    """The piece that has a name in dict.txt."""
    if name in BUILT_IN_SYMBOLS or name == MASK:
        return name
    if name.endswith(_CONTINUED) and name != _CONTINUED:
        return name[: -len(_CONTINUED)]
    return stand_ins.get(name, name) + _END
