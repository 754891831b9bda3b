"""What an export of a checkpoint writes, and what it is compared with."""

import functools
from typing import Any, NamedTuple

from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.export.as_roberta import check_is_roberta, roberta_config, roberta_tensors
from tupe_fairseq.export.folder_config import to_config
from tupe_fairseq.export.folder_files import code_files, folder_files
from tupe_fairseq.export.folder_tensors import to_folder
from tupe_fairseq.export.model_types import ROBERTA
from tupe_fairseq.export.parity import Reference
from tupe_fairseq.export.tokenizer.build_tokenizer import build_tokenizer
from tupe_fairseq.export.tokenizer.tokenizer_files import count_unlisted
from tupe_fairseq.export.unlisted_pieces import FIELD, with_unlisted_rows
from tupe_fairseq.inference.source_model import SourceModel


class Exported(NamedTuple):
    """An export before it is written.

    Args:
        config (dict): of config.json.
        files (dict): the content of each file by its path in the folder.
        parameters (int): how many numbers the model has.
    """

    config: dict[str, Any]
    files: dict[str, bytes]
    parameters: int


def exported_files(
    source: SourceModel,
    vocabulary: Tokenizer,
    dictionary: str,
    model_type: str,
    pooling: str,
    padded: bool = False,
) -> Exported:
    """Make the files of a folder, all but its card.

    Args:
        source (SourceModel): the checkpoint.
        vocabulary (Tokenizer): what splits text for it.
        dictionary (str): its dict.txt.
        model_type (str): one of ``MODEL_TYPES``.
        pooling (str): how sentence-transformers makes one vector of a text.
        padded (bool): allow words with which the dictionary was filled up.
    Raises:
        OSError, ValueError: if the model cannot be of this type, if its tensors are not as they
            should be, or if the tokenizer cannot be made.
    """
    head, options, symbols = source.head, source.options, source.symbols
    tied = not getattr(options, "untie_weights_roberta", False)
    length = options.max_positions
    tokenizer = build_tokenizer(
        vocabulary.kind, vocabulary.paths, symbols, length, padded, unlisted=True
    )
    # how many words the tokenizer has that the checkpoint does not have
    unlisted = count_unlisted(tokenizer)
    tensors = to_folder(source.tensors, head and head.name, tied)
    if unlisted:
        tensors = with_unlisted_rows(tensors, unlisted)
    if model_type == ROBERTA:
        check_is_roberta(options, head)
        config, code = roberta_config(options, symbols, head), {}
        tensors = roberta_tensors(tensors, head)
    else:
        version = int(source.hub.model.encoder.vocabulary_version)
        config, code = to_config(options, symbols, version, head), code_files()
    if unlisted:
        config.update({"vocab_size": len(symbols) + unlisted, FIELD: unlisted})
    with open(dictionary, "rb") as file:
        lines = file.read()
    contents = folder_files(config, tensors, code, tokenizer, lines, pooling, length)
    return Exported(config, contents, sum(tensor.numel() for tensor in tensors.values()))


def reference_of(source: SourceModel, model_type: str) -> Reference:
    """What the folder must compute: what fairseq's hub interface does."""
    hub, head = source.hub, source.head
    logits = {}
    if head is not None:
        logits[f"AutoModel{head.suffix}"] = functools.partial(
            hub.predict, head.name, return_logits=True
        )
    if head is None or model_type != ROBERTA:  # which has one or the other
        logits["AutoModelForMaskedLM"] = lambda tokens: hub.model(tokens)[0]
    dictionary = hub.task.source_dictionary
    return Reference(
        encode=lambda *texts: hub.encode(*texts).tolist(),
        logits=logits,
        pad=dictionary.pad(),
        eos=dictionary.eos(),
        max_positions=source.options.max_positions,
        vocabulary=len(dictionary),
        unknown=dictionary.unk(),
    )
