"""tupe-extend: make a trained model take longer sequences."""

import logging

from tupe_fairseq.checkpoint.options import ExtendOptions as Options


def main(options: Options) -> None:
    from tupe_fairseq.checkpoint.extend import extend_checkpoint
    from tupe_fairseq.cli.printed_commands import next_command

    extended = extend_checkpoint(options)
    logging.getLogger("tupe-extend").info("wrote %s", options.output_dir)
    # fairseq joins lines of the old data into longer samples, so no new data is needed
    data = options.data if extended.task in ("masked_lm", "tupe_masked_lm") else None
    print(next_command(options.output_dir, extended, data, options.user_dir))
