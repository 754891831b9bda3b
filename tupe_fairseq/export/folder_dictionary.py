"""The dict.txt of a model folder, and that it is the model's."""

import os
from typing import Any

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.convert import convert_dictionary
from tupe_fairseq.checkpoint.state_dict import symbols_of, vocabulary_version
from tupe_fairseq.export.folder_symbols import TOKENIZER, tokenizer_lines
from tupe_fairseq.export.unlisted_pieces import FIELD
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.files.text_lines import read_lines


def folder_lines(
    folder: str,
    config: dict[str, Any],
    rows: int,
    given: list[str] | None,
    numbers: dict[str, int] | None,
) -> list[str]:
    """The lines of a folder's dict.txt; of what its tokenizer.json makes, if it has none.

    Args:
        folder (str): the folder.
        config (dict): the content of its config.json.
        rows (int): of the word embedding.
        given (list of str, optional): the lines of ``--dict``, to use instead.
        numbers (dict, optional): of GPT-2's pieces, for its tokenizer.json.
    Raises:
        OSError: if neither is there.
        ValueError: if the dictionary is damaged or not the model's, or the model's vocabulary was
            padded or resized.
    """
    path = os.path.join(folder, DICTIONARY)
    if given is not None:
        path, lines = "--dict", given
    elif os.path.lexists(path):
        lines = read_lines(path, path)
    else:
        path = os.path.join(folder, TOKENIZER)
        lines = tokenizer_lines(folder, numbers, config.get(FIELD, 0))
    lines = convert_dictionary(lines, path)
    symbols = symbols_of(lines)
    if rows != len(symbols):
        raise CheckpointError(
            f"the word embedding in {folder} has {rows} rows, and {path} makes {len(symbols)} "
            "symbols: either the embedding was padded or resized, which cannot be converted, or "
            f"this is not the model's dictionary; give its {DICTIONARY} with --dict"
        )
    recorded = config.get("vocabulary_version")
    if recorded is not None and recorded != int(vocabulary_version(symbols)):
        raise CheckpointError(
            f"{path} is not the dictionary that {folder} was trained with; give its {DICTIONARY} "
            "with --dict"
        )
    return lines
