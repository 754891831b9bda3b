"""tupe-compare: pre-train one model per position encoding and seed, everything else equal."""

import logging

from tupe_fairseq.cli.extras import need
from tupe_fairseq.compare.options import CompareOptions as Options

logger = logging.getLogger("tupe-compare")


def main(options: Options) -> None:
    # check now, not after hours of training
    need("fairseq", "matplotlib", "scipy", "tqdm")

    from tupe_fairseq.compare.comparison import Comparison
    from tupe_fairseq.compare.pre_training import PreTraining, check_runs

    runs = [
        PreTraining(options, arch, scheme, seed, options.lr)
        for arch in options.arch
        for seed in options.seeds
        for scheme in options.schemes
    ]
    check_runs(runs)
    study = Comparison(options.output_dir, runs)
    if options.dry_run:
        print(study.scripts())
        if options.tune_lrs:
            logger.info("then %d runs, each at the best rate of its scheme", len(runs))
        return
    page = study.complete()
    if page:
        print(page)
        logger.info("in %s: results.md, results.json, loss_by_updates.png", options.output_dir)
    study.exit_if_failed()
