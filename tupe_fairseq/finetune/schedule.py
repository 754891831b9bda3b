"""How many updates a run makes, counted before it starts."""

WARMUP_RATIO = 0.06


def total_updates(rows: int, batch_size: int, gpus: int, update_freq: int, epochs: int) -> int:
    """The updates of a whole run of fairseq-train.

    fairseq makes batches of ``batch_size`` rows (the last may be smaller), deals them out to the
    GPUs and sums ``update_freq`` of each before an update; each time the last may be incomplete.

    Args:
        rows (int): rows of the training set, 1 or more.
        batch_size (int): rows a batch on one GPU.
        gpus (int): processes that share the batches; 1 on a CPU.
        update_freq (int): batches of one GPU that are summed for one update.
        epochs (int): passes over the training set.
    """
    share = rows
    for part in (batch_size, gpus, update_freq):
        share = -(-share // part)
    return share * epochs


def warmup_updates(total: int) -> int:
    """The updates over which the learning rate rises: 6% of the run, as in the paper."""
    return round(WARMUP_RATIO * total)
