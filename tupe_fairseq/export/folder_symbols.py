"""The dictionary that a tokenizer.json makes: fairseq's symbols by their ids."""

import os
from typing import Any

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, DICTIONARY, MASK
from tupe_fairseq.files.record import check_record, read_record

TOKENIZER = "tokenizer.json"
_ENTRY = {"id": int, "content": str}
# how the library marks the end of a word in fastBPE's pieces, and how dict.txt marks other pieces
_END = "</w>"
_CONTINUED = "@@"


def tokenizer_lines(
    folder: str, numbers: dict[str, int] | None = None, unlisted: int = 0
) -> list[str]:
    """The lines of a dict.txt that gives every word of a folder's tokenizer its id there.

    Args:
        folder (str): with a tokenizer.json, which does not tell how often a word was seen: each
            line says once.
        numbers (dict, optional): of GPT-2's pieces, which are the words of its dict.txt.
        unlisted (int): how many of the last pieces dict.txt does not list.
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
    symbols = _in_order(_ids(path, numbers or {}), path)
    symbols = symbols[: len(symbols) - unlisted]
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


def _ids(path: str, numbers: dict[str, int]) -> dict[str, int]:
    """The id of each symbol."""
    content = read_record(
        path,
        {"model": {"vocab": (dict, list), "end_of_word_suffix": (str, None)},
         "added_tokens": ([_ENTRY], None), "decoder": (dict, None)},
    )  # fmt: skip
    vocabulary: Any = content["model"]["vocab"]
    if isinstance(vocabulary, list):  # of pairs: piece and score
        check_record(vocabulary, [list], path, "model.vocab")
        pieces = [pair[0] if pair else None for pair in vocabulary]
        check_record(pieces, [str], path, "model.vocab")
        # tupe-export marks so what is no piece of the model: no text has a piece that ends so
        pairs = [(p[:-1] if p.endswith(" ") else p, n) for n, p in enumerate(pieces)]
    else:
        check_record(vocabulary, {str: int}, path, "model.vocab")
        pairs = list(vocabulary.items())
    added = [(token["content"], token["id"]) for token in content.get("added_tokens") or []]
    if content["model"].get("end_of_word_suffix") == _END:
        stand_ins = _stand_ins(content.get("decoder") or {}, path)
        special = dict(added)
        pairs = [(p if p in special else _fastbpe_word(p, stand_ins), n) for p, n in pairs]
    elif numbers:
        pairs = [(str(numbers.get(piece, piece)), number) for piece, number in pairs]
    if len({piece for piece, _ in pairs}) < len(pairs):
        raise CheckpointError(f"{path} lists a word twice")
    return {**dict(pairs), **dict(added)}


def _fastbpe_word(piece: str, stand_ins: dict[str, str]) -> str:
    """What dict.txt calls a piece: marked is there not a word's end, but every other piece."""
    if not piece.endswith(_END):
        return piece + _CONTINUED
    word = piece[: -len(_END)]
    return stand_ins.get(word, word)


def _stand_ins(decoder: dict[str, Any], path: str) -> dict[str, str]:
    """The words of which others stand in the pieces: what the decoder replaces."""
    check_record(decoder, {"decoders": ([dict], None)}, path, "decoder")
    found = {}
    for step in decoder.get("decoders") or []:
        if step.get("type") == "Replace":
            check_record(step, {"pattern": {"String": str}, "content": str}, path, "decoder")
            found[step["pattern"]["String"]] = step["content"]
    return found


def _in_order(ids: dict[str, int], path: str) -> list[str]:
    words = sorted(ids, key=ids.__getitem__)
    for number, word in enumerate(words):
        if ids[word] != number:
            problem = "is not given to any word" if ids[word] > number else "is given to two words"
            raise CheckpointError(f"{path}: the id {min(number, ids[word])} {problem}")
    return words
