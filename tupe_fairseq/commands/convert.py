"""tupe-convert: convert checkpoints of other code, and model folders, to this project's format."""

import argparse
import dataclasses
import logging
import os

from tupe_fairseq.checkpoint import convert, from_learned, from_own
from tupe_fairseq.checkpoint.checkpoint import loading
from tupe_fairseq.checkpoint.foreign_model import ForeignModel, read_checkpoint
from tupe_fairseq.checkpoint.state_dict import classification_heads, symbols_of, vocabulary_version
from tupe_fairseq.checkpoint.untie import in_words, untie
from tupe_fairseq.cli.printed_commands import next_commands
from tupe_fairseq.command_flags.convert import check, get_parser
from tupe_fairseq.command_flags.vocabulary_flags import CHOICES, given_vocabulary
from tupe_fairseq.commands.converted_files import as_text, with_record, write_folder
from tupe_fairseq.commands.fitting_vocabulary import check_fits
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.export.read_folder import read_folder
from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.files.record import read_record
from tupe_fairseq.files.text_lines import read_lines

logger = logging.getLogger("tupe-convert")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check)


def run(args: argparse.Namespace) -> None:
    """Convert; everything else is checked before anything is written.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or an output already there.
    """
    vocabulary = given_vocabulary(args)
    foreign = _read(args)
    symbols = symbols_of(foreign.lines)
    with loading(args.checkpoint):
        model = convert.convert_tensors(foreign.tensors, foreign.options, len(symbols))
    if args.untie:
        with loading(args.checkpoint):
            model, options, reports = untie(model, foreign.options)
        remarks = [*foreign.remarks, *in_words(reports)]
        foreign = dataclasses.replace(foreign, options=options, remarks=remarks)
    model["encoder.vocabulary_version"] = vocabulary_version(symbols)

    files = {DICTIONARY: as_text(foreign.lines)}
    if foreign.head is not None:
        files[os.path.join("input0", DICTIONARY)] = files[DICTIONARY]
    if foreign.labels is not None:
        # unchanged: both loaders subtract their own number of built-in symbols from a label
        files[os.path.join("label", DICTIONARY)] = as_text(foreign.labels)
    if vocabulary is not None:
        check_fits(*vocabulary, foreign.words, foreign.is_authors)
        files.update(with_record(*vocabulary, foreign.options.max_positions))
    new_state = convert.new_state(model, foreign.options)
    paths = write_folder(args.output_dir, new_state, files, args.overwrite)
    _report(foreign, model, paths, vocabulary)
    show(next_commands(args.output_dir, foreign.options, vocabulary is not None))


def _read(args: argparse.Namespace) -> ForeignModel:
    """What ``--checkpoint`` names, with the dictionaries of the other flags."""
    lines, labels = (
        read_lines(path, f"{flag} {path}") if path else None
        for flag, path in (("--dict", args.dict), ("--label-dict", args.label_dict))
    )
    if os.path.isdir(args.checkpoint):
        numbers = args.gpt2_encoder_json and read_record(args.gpt2_encoder_json, {str: int})
        return read_folder(args.checkpoint, lines, labels, numbers)
    own = from_own if args.anew else from_learned if args.untie else None
    foreign = read_checkpoint(args.checkpoint, lines, args.dict, labels, args.label_dict, own)
    if args.anew and foreign.origin != from_own.NAME:
        raise ValueError(
            f"--anew is for checkpoints of this project, and --checkpoint {args.checkpoint} is of "
            f"{foreign.origin}; drop it"
        )
    return foreign


def _report(foreign: ForeignModel, model, paths: list[str], vocabulary) -> None:
    for remark in foreign.remarks:
        logger.info("%s", remark)
    logger.info(
        "a model of %s: %d tensors became %d, float32", foreign.origin, foreign.found, len(model)
    )
    logger.info("classification heads: %s", classification_heads(model) or "none")
    if vocabulary is None:
        logger.info(
            "no vocabulary: to prepare data for the model, give its files, too (%s)", CHOICES
        )
    logger.info("wrote %s", ", ".join(paths))


if __name__ == "__main__":
    main()
