"""Compares a model folder, as transformers uses it, with the checkpoint that it was made of."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from tupe_fairseq.export.folder_process import FolderProcess
from tupe_fairseq.export.sample_texts import LIMIT

# of a batch: sentences, and tokens with their padding, whose logits are in memory at once
_SENTENCES = 16
_TOKENS = 4096
_MASKED_LM = "AutoModelForMaskedLM"


class ParityError(ValueError):
    """The folder does not compute what the checkpoint does; the message says where."""


class Reference(NamedTuple):
    """The checkpoint's model, as fairseq uses it.

    Args:
        encode (callable): one text or two -> token ids.
        logits (dict): one of transformers' AutoModel classes -> a function from tokens (B, L) to
            the logits of the checkpoint's part of the same kind, of tokens (B, L, V) or of
            sequences (B, C).
        pad, eos (int): the ids of ``<pad>`` and ``</s>``.
        max_positions (int): the longest sequence.
        vocabulary (int): how many words it has; a folder may have more, unlisted ones.
        unknown (int): the id of ``<unk>``, for which it takes those.
    """

    encode: Callable[..., list[int]]
    logits: dict[str, Callable[[Tensor], Tensor]]
    pad: int
    eos: int
    max_positions: int
    vocabulary: int
    unknown: int

    def known(self, token: int) -> int:
        """The checkpoint's id for one of the folder's."""
        return token if token < self.vocabulary else self.unknown


class Parity(NamedTuple):
    """What was measured.

    Args:
        differences (dict): AutoModel class -> the largest difference of a logit.
        sentences, tokens, longest (int): how many, and tokens of the longest.
        versions (dict): of transformers, torch and python.
    """

    differences: dict[str, float]
    sentences: int
    tokens: int
    longest: int
    versions: dict[str, str]


def measure(folder: str, reference: Reference, texts: Sequence[str], python: str, trust: bool):
    """Compare token ids, one by one and as pairs, and logits in padded batches.

    Args:
        folder (str): the folder.
        reference (Reference): the checkpoint.
        texts (sequence of str): the sentences; what is longer than the model is cut.
        python (str): the Python whose transformers uses the folder.
        trust (bool): whether the folder holds Python of its own.
    Returns:
        Parity: the differences, all within :data:`LIMIT`.
    Raises:
        ParityError: if an id differs, or a logit by more.
        FolderError: if transformers cannot use the folder.
    """
    texts = list(texts)
    with FolderProcess(folder, python, trust) as theirs, torch.no_grad():
        sequences = _same_ids(theirs, reference, texts)
        sequences = [_cut(ids, reference) for ids in sequences]
        differences = {}
        for kind, logits in reference.logits.items():
            theirs.load(kind)
            differences[kind] = _largest(kind, theirs, reference, logits, sequences)
        tokens = sum(map(len, sequences))
        return Parity(differences, len(texts), tokens, max(map(len, sequences)), theirs.versions)


def _same_ids(theirs: FolderProcess, reference: Reference, texts: list[str]) -> list[list[int]]:
    """The ids of each text in the folder."""
    ours = [reference.encode(text) for text in texts]
    seconds = texts[1:] + texts[:1]
    pairs = (reference.encode(*pair) for pair in zip(texts, seconds))
    found = theirs.encode(texts)
    for name, their_ids, our_ids in (
        ("text", found, ours),
        ("pair that begins with text", theirs.encode(texts, seconds), pairs),
    ):
        for number, (ids, our) in enumerate(zip(their_ids, our_ids), 1):
            their = list(map(reference.known, ids))
            if their != our:
                place = next(
                    (n for n, (a, b) in enumerate(zip(their, our)) if a != b),
                    min(len(their), len(our)),
                )
                raise ParityError(
                    f"the tokenizer disagrees with the checkpoint's encoding: {name} {number} has "
                    f"the ids {their[place : place + 3]}, not {our[place : place + 3]}, from token "
                    f"{place} on: {texts[number - 1][:60]!r}"
                )
    return found


def _cut(ids: list[int], reference: Reference) -> list[int]:
    longest = reference.max_positions
    return ids if len(ids) <= longest else [*ids[: longest - 1], reference.eos]


def _largest(kind, theirs, reference, logits, sequences) -> float:
    largest, pad = 0.0, reference.pad
    # progress is for a person who waits, not for a log
    with tqdm(total=len(sequences), desc=kind, unit="sentence", disable=None, leave=False) as bar:
        for tokens in _batches(sequences, pad):
            known = tokens.masked_fill(tokens >= reference.vocabulary, reference.unknown)
            ours, their = logits(known).float(), theirs.logits(tokens, pad)
            if kind == _MASKED_LM:
                their = their[..., : reference.vocabulary]
            if ours.shape != their.shape:
                raise ParityError(
                    f"{kind} gives logits of the shape {list(their.shape)}, the checkpoint "
                    f"{list(ours.shape)}"
                )
            difference = (ours - their).abs()
            if ours.dim() == 3:  # at padding anything may be
                difference = difference[tokens.ne(pad)]
            largest = max(largest, difference.max().item())
            # not "above": NaN is not, either
            if not difference.max().item() <= LIMIT:
                raise ParityError(
                    f"the logits of {kind} differ from the checkpoint's by "
                    f"{difference.max().item():.1e}; {LIMIT:.0e} is allowed"
                )
            bar.update(len(tokens))
    return largest


def _batches(sequences: list[list[int]], pad: int) -> Iterator[Tensor]:
    """Padded batches in the order of the text, so of unequal lengths."""
    batch: list[list[int]] = []
    for ids in [*sequences, None]:
        longest = max(map(len, [*batch, ids or []]))
        is_full = len(batch) == _SENTENCES or longest * (len(batch) + 1) > _TOKENS
        if batch and (ids is None or is_full):
            width = max(map(len, batch))
            yield torch.tensor([[*one, *[pad] * (width - len(one))] for one in batch])
            batch = []
        if ids is not None:
            batch.append(ids)
