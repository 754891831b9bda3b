"""tupe-convert: convert a checkpoint of the TUPE authors or of RoBERTa to this project's format."""

import argparse
import contextlib
import functools
import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Dict, List, Optional

import torch

from tupe_fairseq.checkpoint import convert, from_authors
from tupe_fairseq.checkpoint.checked_tensors import tensors_in
from tupe_fairseq.checkpoint.contents import options_in, symbols_of, vocabulary_version
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.commands.next_commands import next_commands
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.commands.vocabulary_flags import (
    CHOICES,
    add_vocabulary_flags,
    check_fits,
    check_is_file,
    given_vocabulary,
)
from tupe_fairseq.files.names import DICTIONARY, VOCABULARY
from tupe_fairseq.files.write_together import Sink, write_together
from tupe_fairseq.programs.command import show
from tupe_fairseq.text.foreign_vocabulary import make_record

logger = logging.getLogger("tupe-convert")

_KEPT = {"args", "cfg", "model"}
_DROPPED = {"criterion", "extra_state", "last_optimizer_state", "optimizer_history", "task_state"}


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-convert",
        description="Convert a checkpoint of the TUPE authors' code or of fairseq's stock RoBERTa "
        "(which becomes tupe_roberta with --position-encoding learned) into OUT/model.pt and "
        "OUT/dict.txt. Weights and options are kept; the training state is not. The file is read "
        "without running any code that it contains. Given the files of the vocabulary, OUT serves "
        "as tupe-prepare-glue's --pretrain-dir and tupe-prepare-pretrain's --vocabulary.",
        epilog="example: tupe-convert --checkpoint checkpoint_best.pt --dict data-bin/dict.txt "
        "--bpe-codes bpe-code --output-dir tupe-base",
    )
    parser.add_argument(
        "--checkpoint", required=True, metavar="FILE", help="the checkpoint to convert"
    )
    parser.add_argument("--dict", required=True, metavar="FILE", help="its dict.txt")
    parser.add_argument(
        "--label-dict",
        metavar="FILE",
        help="the label/dict.txt of a fine-tuned checkpoint: keeps the order of its "
        "classes and makes OUT a sentence_prediction checkpoint",
    )
    add_vocabulary_flags(parser)
    parser.add_argument("--output-dir", required=True, metavar="OUT", help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace files of an earlier run")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv)


def run(args: argparse.Namespace) -> None:
    """Convert; everything is checked before anything is written.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or an output already there.
    """
    check_is_file("--checkpoint", args.checkpoint)
    lines = _read_lines("--dict", args.dict)
    label_lines = _read_lines("--label-dict", args.label_dict) if args.label_dict else None
    vocabulary = given_vocabulary(args)
    state = restricted_load(args.checkpoint)
    unknown = set(state) - _KEPT - _DROPPED
    if unknown or "model" not in state:
        raise CheckpointError(
            f"{args.checkpoint} has the entries {', '.join(sorted(map(str, state)))}; expected are "
            "model (a state dict), args or cfg, and, which are dropped, "
            f"{', '.join(sorted(_DROPPED))}"
        )
    given = options_in(state, args.checkpoint)
    tensors = tensors_in(state, args.checkpoint)
    converter = convert.converter_of(given)
    options = converter.convert_options(given)
    converted_lines = convert.convert_dictionary(lines, args.dict, converter.HIDDEN_SYMBOLS)
    symbols = symbols_of(converted_lines)
    model = convert.convert_tensors(tensors, converter.rename_tensors, options, len(symbols))
    head = None
    if label_lines is not None:
        head = _labelled_head(model, given, label_lines, args.label_dict)

    files = {DICTIONARY: _as_text(converted_lines)}
    model["encoder.vocabulary_version"] = vocabulary_version(symbols)
    if label_lines is not None:
        files[os.path.join("input0", DICTIONARY)] = files[DICTIONARY]
        # unchanged: both loaders subtract their own number of built-in symbols from a label
        files[os.path.join("label", DICTIONARY)] = _as_text(label_lines)
    if vocabulary is not None:
        kind, paths = vocabulary
        words = [line.rpartition(" ")[0] for line in lines]
        check_fits(kind, paths, words, converter is from_authors)
        files.update(_recorded(kind, paths, files[DICTIONARY], options.max_positions))
    existing = [
        name for name in ["model.pt", *files] if os.path.exists(os.path.join(args.output_dir, name))
    ]
    if existing and not args.overwrite:
        raise FileExistsError(
            f"{args.output_dir} already holds {', '.join(existing)}; give another --output-dir, or "
            "--overwrite"
        )
    new_state = convert.new_state(model, options, head)
    write = {"model.pt": functools.partial(torch.save, new_state)}
    write.update((name, functools.partial(_put, content)) for name, content in files.items())
    write_together({os.path.join(args.output_dir, name): put for name, put in write.items()})
    if vocabulary is None:  # an earlier run's would be another dict.txt's
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(args.output_dir, VOCABULARY))
    _report(args, converter, state, model, list(write))
    show(next_commands(args.output_dir, options, vocabulary is not None))


def _report(args, converter, state, model, names: List[str]) -> None:
    dropped = sorted(set(state) & _DROPPED)
    logger.info("dropped the training state: %s", ", ".join(dropped) or "none")
    logger.info(
        "a model of %s: %d tensors became %d, float32",
        converter.NAME, len(state["model"]), len(model),
    )  # fmt: skip
    logger.info("classification heads: %s", convert.classification_heads(model) or "none")
    if VOCABULARY not in names:
        logger.info(
            "no vocabulary: to prepare data for the model, give its files, too (%s)", CHOICES
        )
    logger.info("wrote %s", ", ".join(os.path.join(args.output_dir, name) for name in names))


def _read_lines(flag: str, path: str) -> List[str]:
    check_is_file(flag, path)
    with open(path, encoding="utf-8") as file:  # as fairseq: only a newline ends a line
        try:
            return [line.rstrip("\n") for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"{flag} {path} is not a text file in UTF-8") from error


def _put(content: bytes, file: Sink) -> None:
    file.write(content)


def _as_text(lines: List[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _recorded(
    kind: str, paths: Dict[str, str], dictionary: bytes, max_positions: int
) -> Dict[str, bytes]:
    """The files of a vocabulary by name, and the record of them."""
    found = {name: Path(path).read_bytes() for name, path in paths.items()}
    hashes = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in {DICTIONARY: dictionary, **found}.items()
    }
    record = json.dumps(make_record(kind, hashes, max_positions), indent=2)
    return {**found, VOCABULARY: f"{record}\n".encode()}


def _labelled_head(model, given, label_lines, label_dict) -> str:
    """The name of the fine-tuned head, whose classes the label dictionary must cover."""
    heads = convert.classification_heads(model)
    name = given.get("classification_head_name", "sentence_classification_head")
    if name not in heads:
        raise CheckpointError(
            f"--label-dict is given, but the checkpoint has no classification head {name!r}; it "
            f"has {', '.join(heads) or 'none'}"
        )
    if len(label_lines) < heads[name]:
        raise CheckpointError(
            f"{label_dict} lists {len(label_lines)} labels, but head {name!r} has {heads[name]} "
            "classes"
        )
    return name


if __name__ == "__main__":
    main()
