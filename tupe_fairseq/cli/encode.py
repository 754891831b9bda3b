"""tupe-encode: a vector for each row of texts."""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tupe_fairseq.cli.text_rows import RowOptions, TextRows, log_counts
from tupe_fairseq.flags import one_of, option, output_file
from tupe_fairseq.options import POOLINGS

logger = logging.getLogger("tupe-encode")


@dataclass(kw_only=True)
class Options(RowOptions):
    """Write a vector for each row of a file of texts or pairs: float32, rows by width, in the order
    of the rows. Texts longer than the model are truncated and counted. If rows are left out,
    OUT.npy.index has the numbers of the others, from 0.

    example: tupe-encode checkpoints texts.csv --output-file vectors.npy
    """

    output_file: str = option("OUT.npy, written only when complete", output_file(".npy"))
    pooling: str = option(
        "the mean over all tokens, as in sentence-transformers, or the vector of <s>",
        one_of(*POOLINGS), "mean",
    )  # fmt: skip


def main(options: Options) -> None:
    import numpy as np
    from numpy.lib.format import write_array_header_1_0

    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.inference.texts import embed

    model, tokenizer, folders = options.load_model("encoder")
    rows = TextRows(options, folders=folders)
    rows.count()
    width, counts = model.encoder.config.embed_dim, Counter[str]()

    def work(texts):
        return embed(texts, tokenizer, model.encoder, options.pooling, counts)

    with atomic_write(options.output_file, "wb") as file:
        index: list[int] = []
        header = {"descr": "<f4", "fortran_order": False}
        write_array_header_1_0(file, {**header, "shape": (0, width)})
        for chunk, vectors in rows.work(work):
            file.write(np.asarray(vectors, "<f4").tobytes())
            index += [row.index for row in chunk]
        file.seek(0)  # the header has room for any number of rows
        write_array_header_1_0(file, {**header, "shape": (len(index), width)})
    if rows.bad:
        with atomic_write(f"{options.output_file}.index") as file:
            file.writelines(f"{number}\n" for number in index)
    else:  # remove the index of an earlier run
        Path(f"{options.output_file}.index").unlink(missing_ok=True)
    log_counts(logger, counts, rows.bad)
    logger.info("wrote %s: %d vectors of %d numbers", options.output_file, len(index), width)
