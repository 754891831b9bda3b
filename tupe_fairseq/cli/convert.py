"""tupe-convert: turn checkpoints of other code and transformers folders into this project's."""

import logging
import os
import shlex

from tupe_fairseq.checkpoint.options import ConvertOptions as Options
from tupe_fairseq.flags import CHOICES

logger = logging.getLogger("tupe-convert")


def main(options: Options) -> None:
    from tupe_fairseq.cli.printed_commands import next_command
    from tupe_fairseq.data.tokenizer import VOCABULARY
    from tupe_fairseq.export import convert_checkpoint

    converted, folder = convert_checkpoint(options), options.output_dir
    logger.info("wrote %s", folder)
    if os.path.exists(os.path.join(folder, VOCABULARY)):
        flags = shlex.join(["--vocabulary", folder])
        logger.info("to fine-tune it, next: tupe-prepare-task %s ... (see --help)", flags)
    else:
        logger.info("it has no vocabulary; to prepare data, also give its files (%s)", CHOICES)
    print(next_command(folder, converted))
