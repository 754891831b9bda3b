"""The loss of masked language models in samples of other lengths than the trained one.

    python examples/arena/longer.py DATA 128,256 CHECKPOINT...

Prints, for each checkpoint, the loss in bits per masked token in samples of up to so many tokens:
whole lines of valid, as many as fit. The masked tokens are the same at all lengths, and in the two
rows before: the loss of token frequencies alone, and that of a bigram model.
"""

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from fairseq.data.data_utils import load_indexed_dataset

from tupe_fairseq.checkpoint.model import Model

EOS = 2  # at the end of each line


class Masked:
    """The lines of valid that fit into the shortest samples, and which tokens are masked."""

    def __init__(self, data: str, lengths: list[int]):
        self.data, self.lengths = data, lengths
        valid = load_indexed_dataset(f"{data}/valid", None)
        self.lines = [line.long() for line in valid if len(line) < min(lengths)]
        generator = torch.Generator().manual_seed(1)
        draws = (torch.rand(len(line), generator=generator) for line in self.lines)
        self.masks = [(x < 0.15) & (line != EOS) for x, line in zip(draws, self.lines)]
        self.number = sum(int(mask.sum()) for mask in self.masks)

    def losses(self, model: Model) -> dict[int, float]:
        """By length, without those that are beyond a table of positions."""
        longest = model.max_positions if model.encoder.encoding.TABLE else max(self.lengths)
        return {length: self.loss(model, length) for length in self.lengths if length <= longest}

    def loss(self, model: Model, length: int) -> float:
        nats, rest = 0.0, list(zip(self.lines, self.masks))
        while rest:  # as many whole lines as fit behind <s>
            ends = torch.tensor([len(line) for line, _ in rest[:length]]).cumsum(0)
            number = int((ends < length).sum())
            sample, mask = (torch.cat(x) for x in zip(*rest[:number]))
            rest, tokens, places = rest[number:], F.pad(sample, (1, 0)), mask.nonzero()[:, 0] + 1
            inputs = tokens.index_fill(0, places, model.symbols.index("<mask>"))
            with torch.no_grad():
                logits = model.masked_logits(inputs[None], places[None])[0]
            nats += F.cross_entropy(logits, tokens[places], reduction="sum").item()
        return nats / math.log(2) / self.number

    def baselines(self) -> dict[str, float]:
        """Losses of token frequencies, each count + 1, and of p(token | the one before it).

        There, tokens that never followed share T / (N + T) by their frequencies, after T kinds in N
        tokens (Witten and Bell 1991). After a masked token it is the frequency.
        """
        train = torch.cat([*load_indexed_dataset(f"{self.data}/train", None)]).long()
        tokens, mask = torch.cat(self.lines), torch.cat(self.masks)
        symbols = int(max(train.max(), tokens.max())) + 1
        frequency = (train.bincount(minlength=symbols) + 1).double()
        p = (frequency / frequency.sum())[tokens]
        pairs = (train[:-1] * symbols + train[1:]).bincount(minlength=symbols**2)
        pairs = pairs.view(symbols, symbols)
        before, known = tokens.roll(1), ~mask.roll(1)  # the last token, EOS, is before the first
        kinds, number = (x.sum(1)[before] for x in (pairs > 0, pairs))
        after = (pairs[before, tokens] + kinds * p) / (kinds + number)
        after = torch.where(known & (number > 0), after, p)
        return {
            "token frequencies": -p[mask].log2().mean().item(),
            "bigrams": -after[mask].log2().mean().item(),
        }


def main(data: str, lengths: str, *checkpoints: str) -> None:
    masked = Masked(data, [int(length) for length in lengths.split(",")])
    print(f"{masked.number} masked tokens")
    for name, loss in masked.baselines().items():
        print(f"{name:30} {loss:.3f}")
    for path in checkpoints:
        losses = masked.losses(Model.read(path, f"{data}/dict.txt")).values()
        print(f"{Path(path).parent.name:30}", *(f"{loss:.3f}" for loss in losses), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
