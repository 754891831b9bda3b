"""What a figure is drawn from: a model, its name, heads and length, and text."""

import os
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from tupe_fairseq.data.dictionary import BOS, EOS
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.inference import model

# a mean over fewer sequences is too noisy; more of them do not change a figure
FEWEST_BLOCKS, MOST_BLOCKS = 16, 128
# shorter sequences are too short for a figure by position
_SHORTEST_BLOCK = 8
# the longest sentence whose token labels are easy to read
_READABLE = 30
# names that most models have
_COMMON = re.compile(r"checkpoint.*|model")


class NotApplicable(ValueError):
    """A figure has nothing to show for a model; the message is the reason."""


@dataclass
class PlotInput:
    """A model in evaluation mode, and the text that figures of its behaviour need.

    Shape: words (N, T, D), embeddings of sequences with [CLS] first; sentence (L, D), those of
    ``tokens``, the L tokens of one sentence.
    """

    encoder: TupeEncoder
    length: int  # positions 0 .. length - 1 are shown
    heads: list[int]
    words: Tensor | None = None
    sentence: Tensor | None = None
    tokens: list[str] | None = None


def cut_blocks(sentences: list[Tensor], length: int, cls: int) -> Tensor | None:
    """Sentences, one after the other, cut into sequences of one length with [CLS] first.

    If there is little text, the sequences are shorter, so that there are FEWEST_BLOCKS of them.

    Shape: token ids (L) each, without [CLS] -> (N, T), or None if there is too little text.
    """
    tokens = torch.cat(sentences) if sentences else torch.empty(0, dtype=torch.long)
    inner = min(length - 1, len(tokens) // FEWEST_BLOCKS)
    if inner + 1 < min(_SHORTEST_BLOCK, length) or inner < 1:
        return None
    blocks = tokens[: len(tokens) // inner * inner].view(-1, inner)[:MOST_BLOCKS]
    return torch.cat([blocks.new_full((len(blocks), 1), cls), blocks], dim=1)


def short_names(paths: list[str]) -> list[str]:
    """The shortest names that tell checkpoints apart: runs/a/checkpoint_best.pt is a."""
    whole = [os.path.splitext(path)[0].strip(os.sep).split(os.sep) for path in paths]
    telling = [[part for part in parts if not _COMMON.fullmatch(part)] for parts in whole]
    for candidates in (telling, whole):
        for count in range(1, max(map(len, candidates)) + 1):
            names = ["/".join(parts[-count:]) for parts in candidates]
            if all(names) and len(set(names)) == len(names):
                return names
    raise ValueError(f"a checkpoint is listed twice: {' '.join(paths)}")


def load(
    paths: list[str],
    data: str | None = None,
    *,
    length: int | None = None,
    heads: list[int] | None = None,
    sentences: str | None = None,
    sentence: str | None = None,
) -> dict[str, PlotInput]:
    """All models by name, with the same number of positions, so that they can be compared."""
    folders = [data or os.path.dirname(path) or "." for path in paths]
    models = [model.load(path, folder) for path, folder in zip(paths, folders)]
    shortest = min(one.max_positions for one in models)
    if length and length > shortest:
        raise ValueError(f"--length ({length}) is above the model's max_positions ({shortest})")
    length, inputs = length or min(shortest, 128), {}
    for name, path, folder, one in zip(short_names(paths), paths, folders, models):
        last = one.encoder.config.num_heads - 1
        if heads and max(heads) > last:
            raise ValueError(f"--heads ({max(heads)}) is above {last}, the last head of {path}")
        plot_input = PlotInput(one.encoder, length, heads or list(range(last + 1)))
        _add_text(
            plot_input, one.symbols, [folder, os.path.dirname(path) or "."], sentences, sentence
        )
        inputs[name] = plot_input
    return inputs


def _add_text(plot_input, symbols, folders, sentences, sentence) -> None:
    """Fill in the fields of the text, from a file or else the valid split, and the sentence."""
    if sentences or sentence:
        tokenizer = Tokenizer.load(folders)
    if sentences:
        text = [_ids(tokenizer, line) for line in _lines(sentences)]
    else:
        text = _valid(folders[0], plot_input.length, len(symbols))
    embed, longest = plot_input.encoder.embed_tokens, plot_input.encoder.config.max_positions
    blocks = cut_blocks(text, plot_input.length, cls=BOS)
    plot_input.words = None if blocks is None else embed(blocks).detach()
    shown = _ids(tokenizer, sentence) if sentence else _example(text, longest)
    if shown is not None:
        ids = torch.cat([shown.new_tensor([BOS]), shown])
        if len(ids) > longest:
            raise ValueError(f"--sentence has {len(ids)} tokens, and the model takes {longest}")
        plot_input.sentence = embed(ids).detach()
        plot_input.tokens = [symbols[token] for token in ids.tolist()]


def _ids(tokenizer: Tokenizer, line: str) -> Tensor:
    return torch.tensor([*tokenizer.encode(line), EOS])


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        lines = [line for line in map(str.strip, file) if line]
    if not lines:
        raise ValueError(f"--sentences {path} is empty; give one sentence per line")
    return lines


def _valid(folder: str, length: int, num_symbols: int) -> list[Tensor]:
    """Enough sentences of the validation set, if the folder has one."""
    prefix = os.path.join(folder, "valid")
    if not os.path.exists(f"{prefix}.idx"):
        return []
    sentences = [torch.from_numpy(ids) for ids in read_sentences(prefix, MOST_BLOCKS * length)]
    if any(int(ids.max()) >= num_symbols for ids in sentences):
        raise ValueError(f"{prefix}.bin was made with another dict.txt")
    return sentences


def _example(sentences: list[Tensor], longest: int) -> Tensor | None:
    """The first sentence that is short enough for token labels, else the shortest one."""
    fitting = [ids for ids in sentences if 2 < len(ids) < longest]
    readable = (ids for ids in fitting if len(ids) < _READABLE)
    return next(readable, min(fitting, key=len, default=None))
