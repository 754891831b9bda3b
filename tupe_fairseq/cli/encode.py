"""tupe-encode: a vector for each row of texts."""

import logging
from collections import Counter
from pathlib import Path

from tupe_fairseq.cli.arg_types import output_file
from tupe_fairseq.cli.shared_flags import Parser, add_model_flags, load_model
from tupe_fairseq.cli.text_rows import TextRows, add_row_flags, log_counts, parse_rows

logger = logging.getLogger("tupe-encode")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-encode",
        description="Write a vector for each row of a file of texts or pairs: float32, rows by "
        "width, in the order of the rows. Texts longer than the model are truncated and "
        "counted. If rows are left out, OUT.npy.index has the numbers of the others, from 0.",
        epilog="example: tupe-encode checkpoints/checkpoint_best.pt texts.csv --data data-bin "
        "--output-file vectors.npy",
    )
    add_model_flags(parser)
    add_row_flags(parser)
    add = parser.add_argument
    add("--output-file", type=output_file(".npy"), required=True, metavar="OUT",
        help="OUT.npy, written only when complete")  # fmt: skip
    add("--pooling", choices=("mean", "cls"), default="mean",
        help="the mean over all tokens, as in sentence-transformers, or the vector of <s>; default "
        "%(default)s")  # fmt: skip
    return parser


def main(argv: list[str] | None = None) -> None:
    args = parse_rows(get_parser(), argv)

    import numpy as np
    from numpy.lib.format import write_array_header_1_0

    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.inference.texts import embed

    model, tokenizer, folders = load_model(args, "encoder")
    rows = TextRows(args, folders=folders)
    total, width = None if rows.is_stream else rows.count(), model.encoder.config.embed_dim
    counts: Counter[str] = Counter()

    def work(texts):
        return embed(texts, tokenizer, model.encoder, args.pooling, counts)

    with atomic_write(args.output_file, "wb") as file:
        index: list[int] = []
        header = {"descr": "<f4", "fortran_order": False}
        write_array_header_1_0(file, {**header, "shape": (0, width)})
        for chunk, vectors in rows.work(work, total):
            file.write(np.asarray(vectors, "<f4").tobytes())
            index += [number for number, _ in chunk]
        file.seek(0)  # the header has room for any number of rows
        write_array_header_1_0(file, {**header, "shape": (len(index), width)})
    if rows.bad:
        with atomic_write(f"{args.output_file}.index") as file:
            file.writelines(f"{number}\n" for number in index)
    else:  # remove the index of an earlier run
        Path(f"{args.output_file}.index").unlink(missing_ok=True)
    log_counts(logger, counts, rows.bad)
    logger.info("wrote %s: %d vectors of %d numbers", args.output_file, len(index), width)
