"""What a checkpoint is, read without running anything that it contains."""

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from tupe_fairseq.checkpoint.checked_tensors import (
    EMBEDDING,
    VOCABULARY,
    check_finite,
    tensors_in,
)
from tupe_fairseq.checkpoint.contents import options_in, updates_in
from tupe_fairseq.checkpoint.convert import classification_heads, converter_of
from tupe_fairseq.checkpoint.naming_file import naming_file
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding, brief
from tupe_fairseq.inference.load_model import build_encoder, checked_contents
from tupe_fairseq.options import POSITION_OPTIONS, flag

_SIZES = ("encoder_layers", "encoder_embed_dim", "encoder_attention_heads", "max_positions")
_EARLIER = "fairseq-train ... --restore-file EARLIER.pt (a checkpoint that was written before)"


class CheckpointFacts(NamedTuple):
    """What is compared with data and vocabulary.

    Args:
        path (str): the file.
        vocabulary (dict): its word embedding and, if it records one, the hash of its vocabulary.
        max_positions (int, optional): its longest sequence, ``<s>`` and ``</s>`` included.
        hidden_symbols (tuple of str): those that its code has without a line in dict.txt.
        heads (dict): its classification heads: name to number of classes.
        findings (list of Finding): what was found on the way.
    """

    path: str
    vocabulary: dict[str, Tensor]
    max_positions: int | None
    hidden_symbols: tuple
    heads: dict[str, int]
    findings: list[Finding]


def read_checkpoint_facts(path: str, dictionary: str) -> CheckpointFacts:
    """Read a checkpoint of ours, of fairseq's RoBERTa or of the TUPE authors.

    Args:
        path (str): the file.
        dictionary (str): its dict.txt, for the command that converts it.
    Raises:
        OSError: if it cannot be read.
        CheckpointError: if it is refused, damaged, or of another model; no finding is made.
    """
    state = restricted_load(path)
    given = options_in(state, path)
    if str(given.get("arch")).startswith("tupe_roberta"):
        return _ours(state, path)
    converter = converter_of(given)
    tensors = converter.rename_tensors(tensors_in(state, path))
    options = vars(converter.convert_options(given))
    check_finite(tensors, path)
    convert = ["tupe-convert", "--checkpoint", path, "--dict", dictionary, "--output-dir"]
    finding = Finding(
        "checkpoint", WARNING, f"{path}, a model of {converter.NAME}: {_described(options)}",
        "fairseq-train, tupe-finetune and TupeRobertaModel.from_pretrained do not take it as it is",
        f"{' '.join(map(shlex.quote, convert))} converted",
    )  # fmt: skip
    return _facts(path, tensors, options, tuple(converter.HIDDEN_SYMBOLS), [finding])


def _ours(state: dict[str, Any], path: str) -> CheckpointFacts:
    options, tensors = checked_contents(state, path)
    found = f"{path}, {_described(options)}"
    try:
        found += f", after {updates_in(state, path):,} updates"
    except CheckpointError:  # a model alone
        pass
    findings = [Finding("checkpoint", OK, found), _position_options(path, options, tensors)]
    return _facts(path, tensors, options, (), findings)


def _position_options(path: str, options: dict[str, Any], tensors: dict[str, Tensor]) -> Finding:
    """Whether the options that the file names are those that its weights were trained with."""
    flags = [f"--position-encoding {options.get('position_encoding', 'tupe')}"]
    for name in POSITION_OPTIONS:
        value = options.get(name)
        if value:
            flags.append(flag(name) if value is True else f"{flag(name)} {value}")
    found = " ".join([*flags, f"--max-positions {options['max_positions']}"])
    try:
        with naming_file(path):
            build_encoder(options, tensors, tensors[EMBEDDING].size(0))
    except CheckpointError as error:
        return Finding("position options", ERROR, found, str(error), _EARLIER)
    return Finding("position options", OK, found)


def _facts(path, tensors, options, hidden, findings) -> CheckpointFacts:
    if EMBEDDING not in tensors:
        raise CheckpointError(f"{path} holds no word embedding")
    vocabulary = {name: tensors[name] for name in (EMBEDDING, VOCABULARY) if name in tensors}
    heads = classification_heads(tensors)
    return CheckpointFacts(path, vocabulary, options.get("max_positions"), hidden, heads, findings)


def _described(options: dict[str, Any]) -> str:
    layers, width, heads, length = (options.get(name) for name in _SIZES)
    of = f"{options.get('arch')} for {options.get('task', 'masked_lm')}"
    return f"{of}: {layers} layers of {width}, {heads} heads, {length} positions"


def refused_checkpoint(error: Exception) -> Iterator[Finding]:
    """The finding for a checkpoint that cannot be read."""
    yield Finding("checkpoint", ERROR, "cannot be used", brief(error), _EARLIER)
