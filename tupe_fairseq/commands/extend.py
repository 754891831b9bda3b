"""tupe-extend: make a trained model take longer sequences."""

import argparse
import json
import logging
import os
from pathlib import Path

from tupe_fairseq.checkpoint import from_own
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, loading
from tupe_fairseq.checkpoint.convert import convert_tensors, new_state
from tupe_fairseq.checkpoint.extend import extend
from tupe_fairseq.checkpoint.foreign_model import read_checkpoint
from tupe_fairseq.checkpoint.state_dict import symbols_of, vocabulary_version
from tupe_fairseq.cli.printed_commands import next_commands
from tupe_fairseq.command_flags.extend import check, get_parser
from tupe_fairseq.commands.converted_files import write_folder
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.data.tokenizer import KINDS, find_dictionary, places_of
from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.files.names import DICTIONARY, REPORT, VOCABULARY
from tupe_fairseq.files.text_lines import read_lines

logger = logging.getLogger("tupe-extend")

# beside a checkpoint, as they are; of a fine-tuned one
_BESIDE = (os.path.join("input0", DICTIONARY), os.path.join("label", DICTIONARY), REPORT)


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check)


def run(args: argparse.Namespace) -> None:
    """Extend; everything else is checked before anything is written.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or an output already there.
    """
    places = places_of(args.checkpoint, args.data)
    dictionary = find_dictionary(places)
    lines = read_lines(dictionary, dictionary)
    ours = read_checkpoint(args.checkpoint, lines, dictionary, None, "", from_own)
    if ours.origin != from_own.NAME:
        raise CheckpointError(
            f"{args.checkpoint} is of {ours.origin}; make a checkpoint of this project of it "
            "first, with tupe-convert"
        )
    symbols = symbols_of(lines)
    with loading(args.checkpoint):
        model = convert_tensors(ours.tensors, ours.options, len(symbols))
    model, options, remarks = extend(model, ours.options, args.max_positions, args.method)
    model["encoder.vocabulary_version"] = vocabulary_version(symbols)
    files = _files(places, dictionary, args.max_positions)
    paths = write_folder(args.output_dir, new_state(model, options), files, args.overwrite)
    for remark in (*ours.remarks, *remarks):
        logger.info("%s", remark)
    logger.info("max_positions was %d, is %d", ours.options.max_positions, args.max_positions)
    logger.info("wrote %s", ", ".join(paths))
    # lines of old data are joined to longer samples, so that nothing need be prepared again
    data = args.data if options.task in ("masked_lm", "tupe_masked_lm") else None
    prepares = VOCABULARY in files and data is None
    show(next_commands(args.output_dir, options, prepares, data or "data-bin"))


def _files(places: list[str], dictionary: str, max_positions: int) -> dict[str, bytes]:
    """What goes beside the checkpoint: name to content."""
    files = {DICTIONARY: Path(dictionary).read_bytes()}
    vocabulary = [name for names, _ in KINDS.values() for name in names]
    for name in (*_BESIDE, *vocabulary, VOCABULARY):
        paths = [os.path.join(place, name) for place in places]
        paths = [path for path in paths if os.path.isfile(path)]
        if paths:
            files[name] = Path(paths[0]).read_bytes()
    if VOCABULARY in files:
        record = {**json.loads(files[VOCABULARY]), "max_positions": max_positions}
        files[VOCABULARY] = f"{json.dumps(record, indent=2)}\n".encode()
    return files


if __name__ == "__main__":
    main()
