"""The dictionary that a tokenizer.json makes: its words by their ids."""

import os
from typing import Any, Dict, List

from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, DICTIONARY, MASK
from tupe_fairseq.files.record import check_record, read_record

TOKENIZER = "tokenizer.json"
_ENTRY = {"id": int, "content": str}


def tokenizer_lines(folder: str) -> List[str]:
    """The lines of a dict.txt that gives every word of a folder's tokenizer its id there.

    Args:
        folder (str): with a tokenizer.json, which does not tell how often a word was seen: each
            line says once.
    Raises:
        FileNotFoundError: if it is not there.
        ValueError: if it is not a tokenizer's, or its ids are not those that a dictionary of
            fairseq's can give; the message names the first.
    """
    path = os.path.join(folder, TOKENIZER)
    if not os.path.lexists(path):
        raise FileNotFoundError(
            f"{folder} has neither {DICTIONARY} nor {TOKENIZER}; give --dict, the {DICTIONARY} of "
            "the model"
        )
    symbols = _in_order(_ids(path), path)
    first = symbols[: len(BUILT_IN_SYMBOLS)]
    if tuple(first) != BUILT_IN_SYMBOLS:
        raise CheckpointError(
            f"{path} begins with {' '.join(first)[:80]}; the dictionaries of fairseq begin with "
            f"{' '.join(BUILT_IN_SYMBOLS)}"
        )
    words = symbols[len(BUILT_IN_SYMBOLS) :]
    if words and words[-1] == MASK:  # which fairseq adds itself
        words.pop()
    for word in words:
        # a line is split at its last space, and read without the spaces around it
        if not word or word != word.strip() or "\n" in word or "\r" in word:
            raise CheckpointError(f"{path}: the word {word[:80]!r} cannot be written in dict.txt")
    return [f"{word} 1" for word in words]


def _ids(path: str) -> Dict[str, int]:
    content = read_record(path, {"model": {"vocab": (dict, list)}, "added_tokens": (list, None)})
    vocabulary: Any = content["model"]["vocab"]
    if isinstance(vocabulary, list):  # of pairs: piece and score
        check_record(vocabulary, [list], path, "model.vocab")
        pieces = [pair[0] if pair else None for pair in vocabulary]
        check_record(pieces, [str], path, "model.vocab")
        # tupe-export marks so what is no piece of the model: no text has a piece that ends so
        pieces = [piece[:-1] if piece.endswith(" ") else piece for piece in pieces]
        if len(set(pieces)) < len(pieces):
            raise CheckpointError(f"{path} lists a word twice")
        vocabulary = {piece: number for number, piece in enumerate(pieces)}
    check_record(vocabulary, {str: int}, path, "model.vocab")
    added = content.get("added_tokens") or []
    check_record(added, [_ENTRY], path, "added_tokens")
    return {**vocabulary, **{token["content"]: token["id"] for token in added}}


def _in_order(ids: Dict[str, int], path: str) -> List[str]:
    words = sorted(ids, key=ids.__getitem__)
    for number, word in enumerate(words):
        if ids[word] != number:
            problem = "is not given to any word" if ids[word] > number else "is given to two words"
            raise CheckpointError(f"{path}: the id {min(number, ids[word])} {problem}")
    return words
