"""Checks whether a checkpoint, data and a vocabulary belong together."""

from collections.abc import Iterator

from tupe_fairseq.checkpoint.contents import symbols_of
from tupe_fairseq.doctor.checkpoint_facts import CheckpointFacts
from tupe_fairseq.doctor.data_facts import DataFacts
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK
from tupe_fairseq.inference.load_model import check_vocabulary, symbols_in
from tupe_fairseq.text.dictionary_file import listed_words
from tupe_fairseq.text.found_vocabulary import check_fits
from tupe_fairseq.text.pieces import Pieces

_UNKNOWN = BUILT_IN_SYMBOLS.index("<unk>")
# above it, a vocabulary or a text is hardly the right one
_MANY_UNKNOWN = 0.01
# of the pieces of a vocabulary, those that its dictionary does not list
_MANY_UNLISTED = 0.01
_OWN = "give --data FOLDER, the folder that the checkpoint was trained with"
_PREPARE = "tupe-prepare-pretrain (-glue, -task), once more with the right vocabulary"


def check_dictionary(dictionary: str, checkpoint: CheckpointFacts | None) -> Finding:
    """Whether dict.txt is whole, and lists the words that a checkpoint was trained with."""
    name = "dictionary" if checkpoint is None else "dictionary and checkpoint"
    try:
        symbols = symbols_in(dictionary)
    except ValueError as error:
        return Finding(name, ERROR, dictionary, str(error), _PREPARE)
    found = f"{dictionary} with {len(symbols):,} symbols, <mask> and fairseq's own included"
    if checkpoint is None:
        return Finding(name, OK, found)
    if checkpoint.hidden_symbols:
        words = [*checkpoint.hidden_symbols, *listed_words(dictionary)]
        symbols = symbols_of(f"{word} 1" for word in words)
    try:
        check_vocabulary(checkpoint.vocabulary, symbols)
    except ValueError as error:
        return Finding(name, ERROR, found, str(error), _OWN)
    return Finding(name, OK, f"{found}: those of the checkpoint")


def check_pieces(kind: str, paths: dict[str, str], dictionary: str) -> Finding:
    """Whether a vocabulary makes the words of dict.txt, and not many others."""
    name, found = "vocabulary and dictionary", f"{', '.join(paths.values())} ({kind})"
    try:
        check_fits(kind, paths, dictionary)
    except ValueError as error:
        return Finding(name, ERROR, found, str(error), _OWN)
    if kind != "sentencepiece":
        return Finding(name, OK, found)
    (model,) = paths.values()
    listed = set(symbols_in(dictionary))
    pieces = [piece for piece in Pieces(model).words() if piece != MASK]
    unlisted = [piece for piece in pieces if piece not in listed]
    found += f" with {len(pieces):,} pieces"
    if len(unlisted) > _MANY_UNLISTED * len(pieces):
        wrong = (
            f"{len(unlisted):,} of them are not listed and become <unk>, such as "
            f"{', '.join(unlisted[:3])}: fairseq-preprocess made dict.txt of another text, or "
            "with a threshold"
        )
        return Finding(name, WARNING, found, wrong, _PREPARE)
    return Finding(name, OK, found)


def check_tokens(data: DataFacts, num_symbols: int) -> Iterator[Finding]:
    """The ids of a sample of each part: that they are of the dictionary, and known pieces."""
    rates: list[tuple[str, float]] = []
    for split in data.splits:
        ids = data.sample(split)
        if not len(ids):
            yield Finding(f"data {split.name}", ERROR, "no tokens", "it is empty", _PREPARE)
            continue
        if ids.max() >= num_symbols:
            wrong = (
                f"{split.prefixes[0]} has the id {ids.max()}, but {data.dictionary} only "
                f"{num_symbols} symbols: it was made with another dict.txt"
            )
            yield Finding("data and dictionary", ERROR, data.folder, wrong, _PREPARE)
            return
        rates.append((split.name, float((ids == _UNKNOWN).mean())))
    found = ", ".join(f"{name} {rate:.2%}" for name, rate in rates)
    if max((rate for _, rate in rates), default=0.0) > _MANY_UNKNOWN:
        wrong = f"more than {_MANY_UNKNOWN:.0%}: the vocabulary is not for text of this kind"
        yield Finding("unknown pieces", WARNING, found, wrong, _PREPARE)
    elif rates:
        yield Finding("unknown pieces", OK, found)


def check_lengths(data: DataFacts, longest: int) -> Finding:
    """Whether rows are longer than a model takes.

    Args:
        data (DataFacts): with parts.
        longest (int): the model's longest sequence.
    """
    too_long, told = 0, []
    for split in data.splits:
        lengths = data.lengths(split)
        if len(lengths):
            told.append(f"{split.name} up to {lengths.max():,}")
            too_long += int((lengths > longest).sum())
    found = f"{', '.join(told)} tokens, for a model of {longest:,}"
    rows = sum(split.rows for split in data.splits)
    if data.tokens_per_sample > longest:
        wrong = f"the data was made for samples of {data.tokens_per_sample:,} tokens"
        command = f"fairseq-train ... --tokens-per-sample {longest}"
        return Finding("lengths", WARNING, found, wrong, command)
    if not too_long:
        return Finding("lengths", OK, found)
    wrong = f"{too_long:,} of {rows:,} rows are longer than the model takes"
    if data.texts:
        wrong += ", and are cut"
        command = "fairseq-train ... --shorten-method truncate (tupe-finetune does it)"
    else:
        wrong += ", and are skipped"
        command = f"tupe-prepare-pretrain --tokens-per-sample {longest} (it splits them)"
    return Finding("lengths", WARNING, found, wrong, command)


def check_classes(data: DataFacts, checkpoint: CheckpointFacts) -> Finding | None:
    """Whether a fine-tuned model has the classes of a task's data; None if there are none."""
    if not data.classes or not checkpoint.heads:
        return None
    found = ", ".join(f"{name} with {number}" for name, number in checkpoint.heads.items())
    if data.classes in checkpoint.heads.values():
        return Finding("classes", OK, f"{data.classes} in the data; heads: {found}")
    wrong = f"label/dict.txt of the data lists {data.classes}"
    command = "give --data, the folder that the checkpoint was fine-tuned with"
    return Finding("classes", WARNING, f"heads: {found}", wrong, command)
