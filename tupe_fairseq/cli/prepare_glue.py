"""tupe-prepare-glue: turn GLUE's official files into data for fine-tuning."""

import logging

from tupe_fairseq.cli.printed_commands import finetuning
from tupe_fairseq.prepare import GlueOptions as Options
from tupe_fairseq.prepare import prepare_glue


def main(options: Options) -> None:
    for folder in prepare_glue(options):
        command = finetuning(folder, options.vocabulary)
        logging.getLogger("tupe-prepare-glue").info("next: %s", command)
