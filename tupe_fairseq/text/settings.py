"""Everything that prepared data depends on, recorded in its folder."""

import argparse
import logging
import os
from typing import Any

from tupe_fairseq.files.fingerprint import fingerprint
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.text.foreign_vocabulary import vocabulary_files

logger = logging.getLogger("tupe-prepare-pretrain")

#: the step that is the first to depend on an option; all others are those of the cleaning
_FIRST_USE = {
    **dict.fromkeys(("valid_fraction", "test_fraction", "join_short", "shards"), "split"),
    **dict.fromkeys(("vocab_size", "model_type", "character_coverage"), "vocabulary"),
    **dict.fromkeys(("sample_mb", "sentencepiece_model"), "vocabulary"),
    "tokens_per_sample": "encode",
}
_LONG_TO_READ = 1 << 30


def text_files(options: argparse.Namespace) -> dict[str, str]:
    """Every file of text, by role.

    Args:
        options (Namespace): of tupe-prepare-pretrain.
    """
    named = {}
    for kind in ("input", "valid_input", "test_input"):
        for number, path in enumerate(getattr(options, kind) or [], 1):
            named[f"{kind} {number}"] = path
    return named


def input_files(options: argparse.Namespace) -> dict[str, str]:
    """Every file that is read, by role."""
    named = text_files(options)
    if options.sentencepiece_model:
        named["sentencepiece_model"] = options.sentencepiece_model
    if options.vocabulary:
        files = vocabulary_files(options.vocabulary)
        files[DICTIONARY] = os.path.join(options.vocabulary, DICTIONARY)
        named.update((f"vocabulary {name}", path) for name, path in files.items())
    return named


def settings(options: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    """The options, and the fingerprints of the input files.

    Args:
        options (Namespace): of tupe-prepare-pretrain.
        before (dict): the settings that the folder was made with, if any.
    """
    files = {"input", "valid_input", "test_input", "sentencepiece_model", "vocabulary"}
    without = {*files, "workers", "output_dir"}
    found = {name: value for name, value in vars(options).items() if name not in without}
    for name, path in input_files(options).items():
        if os.path.getsize(path) > _LONG_TO_READ and name not in before:
            logger.info("reading %s once, to know it again later", path)
        found[name] = fingerprint(path, before.get(name))
    return found


def used_by(names) -> dict[str, tuple[str, ...]]:
    """For each setting, the steps that first depend on it, as :class:`Steps` takes them.

    What a message says to change can be changed, then, without doing again what does not depend
    on it: after a --vocab-size that the text does not allow, the cleaned text is used again.

    Args:
        names (iterable of str): of settings.
    """
    found = {}
    for name in names:
        kind, _, number = name.partition(" ")
        if number.isdigit():
            source = {"input": "train"}.get(kind, kind[: -len("_input")])
            found[name] = (f"clean {source} {int(number) - 1}", "deduplicate")
        else:
            found[name] = (_FIRST_USE.get(name, "clean"),)
    return found
