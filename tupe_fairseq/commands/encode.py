"""tupe-encode: a vector for each row of texts."""

import argparse
import logging
import os
from typing import Any

from tupe_fairseq.command_flags import arguments
from tupe_fairseq.command_flags.encode import check, get_parser
from tupe_fairseq.command_flags.vocabulary_flags import CHOICES, given_vocabulary
from tupe_fairseq.commands.chunk_run import (
    count_rows,
    opened_output,
    run_chunks,
    settings_of,
    tell,
)
from tupe_fairseq.commands.devices import devices_of
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.commands.text_input import open_input
from tupe_fairseq.inference.load_model import WordEncoder, load_model
from tupe_fairseq.modules.pooling import POOLINGS
from tupe_fairseq.prediction.batched_encoder import BatchedEncoder
from tupe_fairseq.prediction.embedder import Embedder
from tupe_fairseq.prediction.row_chunks import Chunk
from tupe_fairseq.prediction.text_sequences import TextSequences
from tupe_fairseq.prediction.vector_file import HEADERS, vector_bytes
from tupe_fairseq.text.found_vocabulary import find_dictionary
from tupe_fairseq.text.to_tokens import open_vocabulary, places_of

logger = logging.getLogger("tupe-encode")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Encode; the file appears under its name only when everything is encoded.

    Raises:
        OSError, ValueError: if an input is absent or wrong.
    """
    given = given_vocabulary(args)
    devices = devices_of(args)
    ending = os.path.splitext(args.output_file)[1].lower()
    places = places_of(args.checkpoint, args.data)
    dictionary = find_dictionary(places)
    encoder, symbols = load_model(args.checkpoint, os.path.dirname(dictionary))
    keep_layers(encoder, args.layer)
    to_tokens = open_vocabulary(symbols, places, dictionary, given, True, CHOICES)
    source = open_input(args, None, False, logger)
    total = count_rows(source, logger, _nothing)
    width = encoder.config.embed_dim

    def make(device: str) -> Embedder:
        there = encoder.to(device)
        run = BatchedEncoder(
            there.half() if args.fp16 else there, POOLINGS[args.pooling], args.batch_tokens,
            args.unpad,
        )  # fmt: skip
        return Embedder(TextSequences(to_tokens, encoder.config.max_positions), run)

    def to_bytes(chunk: Chunk, vectors: list[Any], is_first: bool) -> bytes:
        header = HEADERS[ending](total, width) if is_first else b""
        return header + vector_bytes(vectors)

    files = [args.checkpoint, dictionary, *to_tokens.paths, args.input]

    def settings():
        more = {"--pooling": args.pooling, "--layer": args.layer, "rows": total}
        return {**settings_of(args, devices, files), **more}

    with opened_output(args.output_file, source, settings) as output:
        counts = run_chunks(source, make, devices, to_bytes, output, total)
    tell(counts, logger, f"{args.output_file}: {total} vectors of {width} numbers")


def keep_layers(encoder: WordEncoder, layers: int | None) -> None:
    """Leave out the layers after the Nth, and what comes after the last one.

    Args:
        encoder (WordEncoder): changed in place.
        layers (int, optional): how many to keep; None: all.
    Raises:
        ValueError: if there are not so many.
    """
    if layers is None:
        return
    there = encoder.config.num_layers
    arguments.in_range("--layer", layers, at_least=0, at_most=there)
    if layers < there:
        encoder.layers = encoder.layers[:layers]
        encoder.layer_norm = None


def _nothing(chunk: Chunk) -> None:
    pass


if __name__ == "__main__":
    main()
