"""A tokenizer with the pieces of GPT-2's byte BPE, whose numbers are fairseq's symbols."""

import itertools
import json

from tupe_fairseq.export.tokenizer.symbols_in_order import SymbolsInOrder, with_unlisted
from tupe_fairseq.export.tokenizer.tokenizer_files import bpe_model, tokenizer_json
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK


def gpt2_tokenizer(order: SymbolsInOrder, encoder_json: str, vocab_bpe: str, allow_unlisted: bool):
    """The dictionary with the numbers that it lacks, and the text of tokenizer.json.

    Args:
        order (SymbolsInOrder): the dictionary.
        encoder_json (str): the pieces and their numbers.
        vocab_bpe (str): the pairs that are joined.
        allow_unlisted (bool): whether there may be numbers that the dictionary lacks.
    Raises:
        ValueError: if there are such numbers and may not be, or a piece has the name of a symbol.
    """
    with open(encoder_json, encoding="utf-8") as file:
        numbers: dict[str, int] = json.load(file)
    with open(vocab_bpe, encoding="utf-8") as file:
        pairs = [line.split() for line in file.read().split("\n")[1:-1]]
    pieces = {str(number): piece for piece, number in numbers.items()}
    # a byte that is in no pair and no symbol is unknown to the library, too
    needed = {*(left + right for left, right in pairs), *itertools.chain(*pairs)}
    from_text = [name for name, piece in pieces.items() if piece in needed]
    order = with_unlisted(order, from_text, encoder_json, allow_unlisted)
    vocabulary = {
        pieces.get(symbol, symbol): id_
        for id_, symbol in enumerate([*order.symbols, *order.unlisted])
    }
    taken = {*BUILT_IN_SYMBOLS, MASK} & set(numbers)
    if taken or len(vocabulary) < len(order.symbols) + len(order.unlisted):
        raise ValueError(
            f"{encoder_json} gives a number to {', '.join(sorted(taken)) or 'a symbol'}, which is "
            "the name of another symbol of fairseq's dictionary"
        )
    spaces = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    content = tokenizer_json(
        order,
        [],
        [{"type": "ByteLevel", **spaces}],
        bpe_model(vocabulary, pairs),
        {"type": "ByteLevel", **spaces},
    )
    return order, content
