"""tupe-prepare-pretrain: turn raw text into a data folder for fairseq's masked_lm."""

import logging
import os

from tupe_fairseq.cli.extras import need
from tupe_fairseq.prepare import PretrainingOptions as Options
from tupe_fairseq.prepare import prepare_pretraining

logger = logging.getLogger("tupe-prepare-pretrain")


def main(options: Options) -> None:
    need("numpy", "tqdm", *([] if options.vocabulary else ["sentencepiece"]))
    report = prepare_pretraining(options)
    from tupe_fairseq.cli.printed_commands import first_training
    from tupe_fairseq.data.pretraining import summary

    if report is None:
        logger.info("%s is already finished", options.output_dir)
    for line in summary(report) if report else ():
        logger.info("%s", line)
    if options.vocabulary and os.path.isfile(os.path.join(options.vocabulary, "model.pt")):
        logger.info("next: run the fairseq-train command that tupe-convert printed")
        return
    logger.info("next, for a first small model (README: the paper's recipe):")
    print(first_training(options.output_dir, options.tokens_per_sample), flush=True)
