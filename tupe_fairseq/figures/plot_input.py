"""What a figure is drawn from: a model, its heads and length, and text."""

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import BOS, EOS
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.tokenizer import Tokenizer, find_dictionary
from tupe_fairseq.encoder import TupeEncoder

# sentences among which one is chosen
_SENTENCES = 1000
# the longest sentence whose token labels are easy to read
_READABLE = 30


class NotApplicable(ValueError):
    """A figure has nothing to show for a model; the message is the reason."""


@dataclass
class PlotInput:
    """A model in evaluation mode, and a sentence for figures of its behaviour.

    Shape: sentence (L, D), embeddings of ``tokens``, of which the first is [CLS].
    """

    encoder: TupeEncoder
    length: int  # positions 0 .. length - 1 are shown
    heads: list[int]
    sentence: Tensor | None = None
    tokens: list[str] | None = None


def load(
    path: str,
    data: str | None = None,
    *,
    length: int | None = None,
    heads: list[int] | None = None,
    sentence: str | None = None,
) -> PlotInput:
    """Load a model; by default the sentence is from the valid split of its data, if that exists."""
    folder = data or os.path.dirname(path) or "."
    one = Model.read(path, find_dictionary([folder]))
    embed, longest = one.encoder.embed_tokens, one.max_positions
    last = one.encoder.config.num_heads - 1
    if length and length > longest:
        raise ValueError(f"--length ({length}) is above the model's max_positions ({longest})")
    if heads and max(heads) > last:
        raise ValueError(f"--heads ({max(heads)}) is above {last}, the last head of {path}")
    length = length or min(longest, 128)
    plot_input = PlotInput(one.encoder, length, heads or list(range(last + 1)))
    if sentence:
        tokenizer = Tokenizer.load([folder, os.path.dirname(path) or "."])
        shown = torch.tensor([*tokenizer.encode(sentence), EOS])
    else:
        shown = _example(_valid(folder, len(one.symbols)), longest)
    if shown is not None:
        ids = torch.cat([shown.new_tensor([BOS]), shown])
        if len(ids) > longest:
            raise ValueError(f"--sentence has {len(ids)} tokens, and the model takes {longest}")
        plot_input.sentence = embed(ids).detach()
        plot_input.tokens = [one.symbols[token] for token in ids.tolist()]
    return plot_input


def _valid(folder: str, num_symbols: int) -> list[Tensor]:
    """The first sentences of the validation set, if the folder has one."""
    prefix = os.path.join(folder, "valid")
    if not os.path.exists(f"{prefix}.idx"):
        return []
    sentences = [torch.from_numpy(ids) for ids in read_sentences(prefix, _SENTENCES)]
    if any(int(ids.max()) >= num_symbols for ids in sentences):
        raise ValueError(f"{prefix}.bin was made with another dict.txt")
    return sentences


def _example(sentences: list[Tensor], longest: int) -> Tensor | None:
    """The first sentence that is short enough for token labels, else the shortest one."""
    fitting = [ids for ids in sentences if 2 < len(ids) < longest]
    readable = (ids for ids in fitting if len(ids) < _READABLE)
    return next(readable, min(fitting, key=len, default=None))
