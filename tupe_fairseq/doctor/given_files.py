"""All checks of the files that are to be used together."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from tupe_fairseq.doctor.belonging import (
    check_classes,
    check_dictionary,
    check_lengths,
    check_pieces,
    check_tokens,
)
from tupe_fairseq.doctor.checkpoint_facts import (
    CheckpointFacts,
    read_checkpoint_facts,
    refused_checkpoint,
)
from tupe_fairseq.doctor.data_facts import DataFacts, read_data_facts
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding
from tupe_fairseq.files.names import DICTIONARY, SENTENCEPIECE_MODEL
from tupe_fairseq.inference.load_model import symbols_in
from tupe_fairseq.text.found_vocabulary import find_dictionary, find_vocabulary
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.to_tokens import places_of


class GivenFiles(NamedTuple):
    """What the flags name.

    Args:
        checkpoint (str, optional): a file.
        data (str, optional): a folder.
        sentencepiece_model (str, optional): a file.
    """

    checkpoint: str | None
    data: str | None
    sentencepiece_model: str | None


def check_files(given: GivenFiles) -> Iterator[Finding]:
    """Check each file by itself, and then what belongs together."""
    places = [] if given.data is None else [given.data]
    if given.checkpoint is not None:
        places = places_of(given.checkpoint, given.data)
    dictionary = _dictionary(places)
    checkpoint: CheckpointFacts | None = None
    if given.checkpoint is not None:
        try:
            checkpoint = read_checkpoint_facts(given.checkpoint, dictionary or DICTIONARY)
            yield from checkpoint.findings
        except (OSError, ValueError) as error:
            yield from refused_checkpoint(error)
    data: DataFacts | None = None
    if given.data is not None:
        try:
            data = read_data_facts(given.data)
            parts = ", ".join(f"{split.name} {split.rows:,} rows" for split in data.splits)
            yield Finding("data", OK, f"{given.data}: {parts or 'no binarized text'}")
        except (OSError, ValueError) as error:
            yield Finding(
                "data", ERROR, given.data, str(error), "tupe-prepare-pretrain, tupe-prepare-glue "
                "or tupe-prepare-task, once more",
            )  # fmt: skip
    if dictionary is None and places:
        wrong = f"there is no {DICTIONARY} in {' or '.join(places)}"
        command = "give --data FOLDER, the folder that the checkpoint was trained with"
        yield Finding("dictionary", WARNING, "not compared", wrong, command)
    finding = None
    if dictionary is not None:
        finding = check_dictionary(dictionary, checkpoint)
        yield finding
    is_whole = finding is not None and finding.level == OK
    yield from _vocabulary(given, places, dictionary if is_whole else None)
    if data is not None and data.splits:
        if dictionary is not None and is_whole:
            yield from check_tokens(data, len(symbols_in(data.dictionary)))
        if checkpoint is not None and checkpoint.max_positions is not None:
            yield check_lengths(data, checkpoint.max_positions)
        found = None if checkpoint is None else check_classes(data, checkpoint)
        if found is not None:
            yield found


def _dictionary(places) -> str | None:
    try:
        return find_dictionary(places) if places else None
    except FileNotFoundError:
        return None


def _vocabulary(given: GivenFiles, places, dictionary: str | None) -> Iterator[Finding]:
    """The SentencePiece model that a flag names, or the vocabulary that is beside the others."""
    path = given.sentencepiece_model
    if path is not None:
        try:
            pieces = Pieces(path)
        except (OSError, ValueError) as error:
            command = "tupe-prepare-pretrain writes one as sentencepiece.bpe.model"
            yield Finding("vocabulary", ERROR, path, str(error), command)
        else:
            if dictionary is None:
                yield Finding("vocabulary", OK, f"{path} with {len(pieces):,} pieces")
            else:
                yield check_pieces("sentencepiece", {SENTENCEPIECE_MODEL: path}, dictionary)
    elif dictionary is not None:
        try:
            found = find_vocabulary(places, dictionary, "--sentencepiece-model")
        except FileNotFoundError as error:
            wrong = f"text cannot be given to the model: {error}"
            command = f"cp DATA/{SENTENCEPIECE_MODEL} {os.path.dirname(dictionary) or '.'}"
            yield Finding("vocabulary", WARNING, "not compared", wrong, command)
        except (OSError, ValueError) as error:
            command = "give --data FOLDER, the folder that the checkpoint was trained with"
            yield Finding("vocabulary", ERROR, "cannot be used", str(error), command)
        else:
            yield check_pieces(found.kind, found.paths, dictionary)
