"""Everything that prepared data depends on, recorded in its folder."""

import argparse
import os
from typing import Any, Dict

from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.text.foreign_vocabulary import vocabulary_files


def input_files(options: argparse.Namespace) -> Dict[str, str]:
    """Every file that is read, by role.

    Args:
        options (Namespace): of tupe-prepare-pretrain.
    """
    named = {}
    for kind in ("input", "valid_input", "test_input"):
        for number, path in enumerate(getattr(options, kind) or [], 1):
            named[f"{kind} {number}"] = path
    if options.sentencepiece_model:
        named["sentencepiece_model"] = options.sentencepiece_model
    if options.vocabulary:
        files = vocabulary_files(options.vocabulary)
        files[DICTIONARY] = os.path.join(options.vocabulary, DICTIONARY)
        named.update((f"vocabulary {name}", path) for name, path in files.items())
    return named


def settings(options: argparse.Namespace) -> Dict[str, Any]:
    """The options and the input files, each by its name, size and time of change."""
    files = {"input", "valid_input", "test_input", "sentencepiece_model", "vocabulary"}
    without = {*files, "workers", "output_dir"}
    found = {name: value for name, value in vars(options).items() if name not in without}
    for name, path in input_files(options).items():
        status = os.stat(path)
        found[name] = [os.path.basename(path), status.st_size, status.st_mtime_ns]
    return found
