"""tupe-score: pseudo-log-likelihoods of sentences, and minimal pairs."""

import logging

from tupe_fairseq.checkpoint.options import ScoreOptions as Options

logger = logging.getLogger("tupe-score")


def main(options: Options) -> None:
    from tupe_fairseq.scoring.minimal_pairs import accuracy_page
    from tupe_fairseq.scoring.score import score_file

    results = score_file(options)
    if options.pairs:
        print(accuracy_page(results["checkpoint"]["path"], results["pairs"]), end="")
    if options.output_file:
        logger.info("wrote %s", options.output_file)
    if options.report:
        logger.info("wrote results.md and results.json in %s", options.report)
