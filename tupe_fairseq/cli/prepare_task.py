"""tupe-prepare-task: turn your labelled files into data for fine-tuning."""

import logging

from tupe_fairseq.cli.printed_commands import finetuning
from tupe_fairseq.prepare import TaskOptions as Options
from tupe_fairseq.prepare import prepare_task


def main(options: Options) -> None:
    prepare_task(options)
    command = finetuning(options.output_dir, options.vocabulary)
    logging.getLogger("tupe-prepare-task").info("next: %s", command)
