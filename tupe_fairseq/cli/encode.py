"""tupe-encode: a vector for each row of texts."""

import argparse
import contextlib
import logging
import os
from collections import Counter

from tupe_fairseq.cli.arg_types import at_least, output_file
from tupe_fairseq.cli.shared_flags import (
    add_model_flags,
    load_model,
    refuse_overwriting,
    vocabulary_files,
)
from tupe_fairseq.cli.text_rows import TextRows, add_row_flags, check_row_flags

logger = logging.getLogger("tupe-encode")


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-encode",
        description="Write a vector for each row of a file of texts or pairs: float32, rows by "
        "width, in the order of the rows. Longer texts than the model takes are truncated and "
        "counted.",
        epilog="example: tupe-encode checkpoints/checkpoint_best.pt texts.csv --data data-bin "
        "--output-file vectors.npy",
    )
    add_model_flags(parser)
    add_row_flags(parser)
    add = parser.add_argument
    add(
        "--output-file",
        type=output_file(".npy"),
        required=True,
        metavar="OUT",
        help="OUT.npy, which is replaced when all is there",
    )
    add(
        "--pooling",
        choices=("mean", "cls"),
        default="mean",
        help="the mean of all tokens, as in sentence-transformers, or the vector of <s>; default "
        "%(default)s",
    )
    add(
        "--layer",
        type=at_least(0),
        metavar="N",
        help="take the output of layer N, 0 for the embeddings; default: the last",
    )
    return parser


def main(argv: list[str] | None = None) -> None:
    """Encode; the file gets its name when it is complete."""
    parser = get_parser()
    args = parser.parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    if args.input == "-":
        parser.error("INPUT must be a file: its rows are counted first")
    check_row_flags(parser, args)
    refuse_overwriting(parser, args.output_file, [args.checkpoint, args.input])

    import numpy as np

    from tupe_fairseq.inference.texts import BATCH_TOKENS, BATCH_TOKENS_ON_GPU, embed

    model, tokenizer, device = load_model(args, vocabulary)
    encoder = model.encoder
    if args.layer is not None and args.layer != encoder.config.num_layers:
        if args.layer > encoder.config.num_layers:
            raise ValueError(f"--layer {args.layer}: the model has {encoder.config.num_layers}")
        encoder.layers = encoder.layers[: args.layer]
        encoder.layer_norm = None
    encoder = (encoder.half() if args.fp16 else encoder).to(device)
    rows = TextRows(args, None, False, all_columns=False)
    total, width = rows.count(lambda row: None), encoder.config.embed_dim
    batch_tokens = args.batch_tokens or (BATCH_TOKENS if device == "cpu" else BATCH_TOKENS_ON_GPU)
    counts: Counter[str] = Counter()

    def work(texts):
        return embed(texts, tokenizer, encoder, args.pooling, batch_tokens, counts)

    partial = f"{args.output_file}.partial"
    os.makedirs(os.path.dirname(partial) or ".", exist_ok=True)
    try:
        file = np.lib.format.open_memmap(partial, "w+", np.dtype("<f4"), (total, width))
        start = 0
        for _, vectors in rows.chunks(work, total):
            file[start : start + len(vectors)] = vectors
            start += len(vectors)
        file.flush()
        os.replace(partial, args.output_file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
        raise
    rows.log(logger, counts)
    logger.info("wrote %s: %d vectors of %d numbers", args.output_file, total, width)
