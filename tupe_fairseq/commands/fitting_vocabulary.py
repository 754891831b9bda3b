"""Whether a vocabulary whose files the flags give is that of a checkpoint."""

from tupe_fairseq.text.foreign_vocabulary import KINDS


def check_fits(kind: str, paths: dict[str, str], words: list[str], is_authors: bool) -> None:
    """Refuse a vocabulary that the checkpoint was not trained with.

    Args:
        kind (str): the kind.
        paths (dict): its files.
        words (list of str): of the checkpoint's dict.txt, as it was given.
        is_authors (bool): whether the checkpoint is the TUPE authors'.
    Raises:
        OSError, ValueError: if a file cannot be read, is not of the kind, or does not fit.
    """
    if kind == "fastbpe" and not is_authors:
        raise ValueError(
            "--bpe-codes is for checkpoints of the TUPE authors' code, whose text was "
            f"{KINDS[kind].text}; what is done to text before another model's codes is not known"
        )
    KINDS[kind].check(*paths.values(), words)
