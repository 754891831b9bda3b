"""Whether a vocabulary whose files the flags give is that of a checkpoint."""

from tupe_fairseq.data.dictionary import FILLER
from tupe_fairseq.data.tokenizer import KINDS


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
            "lower case and tokenized (Moses); what is done to text before another model's codes "
            "is not known"
        )
    unfit = KINDS[kind][1](*paths.values()).unfit([x for x in words if not FILLER.fullmatch(x)])
    if unfit:
        raise ValueError(
            f"{' and '.join(paths.values())} does not fit the dictionary: {len(unfit)} of its "
            f"{len(words)} words are no subwords of it, such as {', '.join(unfit[:3])}"
        )
