"""A budget in tokens as a number of updates."""

from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.fairseq_runs.command import parse_training


def updates_of_budget(comparison: Comparison, arch: str, tokens: int) -> int:
    """The updates, whole ones, whose batches have at most so many tokens.

    A batch counts with all its places, as if each sample had ``--tokens-per-sample``.

    Args:
        comparison (Comparison): its updates do not matter.
        arch (str): one of its sizes; which one makes no difference.
        tokens (int): the budget of each run.
    Raises:
        ValueError: if it is less than one update, or batches have no one size.
    """
    words = [*comparison.common_words(arch)[1:], *comparison.train_flags]
    options = parse_training(words)
    frequencies = set(options.update_freq)
    if len(frequencies) > 1 or options.max_tokens is not None:
        flag = "--max-tokens" if options.max_tokens is not None else "--update-freq with two values"
        raise ValueError(
            f"--tokens needs batches of one size, and --train-flags has {flag}; give --updates"
        )
    each = comparison.batch_size * comparison.tokens_per_sample * frequencies.pop()
    if tokens < each:
        raise ValueError(
            f"--tokens ({tokens}) must be at least {each}, the tokens of one update; raise it, or "
            "lower --batch-size"
        )
    return tokens // each
