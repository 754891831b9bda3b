"""CPU time and memory of a training step with each position encoding, compared with tupe's.

    python scripts/benchmarks/encodings.py                 # 4 layers of 256; minutes on one core
    python scripts/benchmarks/encodings.py --layers 12 --dim 768 --schemes "tupe --rel-pos; rope"

The encodings take steps in turn, in one process with one thread. CPU time is measured, so other
work on the machine matters little. Memory is what autograd keeps for the backward pass.
"""

import argparse
import ast
import statistics
import time
from typing import Any

import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.compare.schemes import Scheme, schemes
from tupe_fairseq.position import CATALOGUE


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    help = "as tupe-compare takes them; default: all encodings"
    parser.add_argument("--schemes", type=schemes, default="; ".join(CATALOGUE), help=help)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dim", type=int, default=256, help="width; heads have 64; default 256")
    parser.add_argument("--rounds", type=int, default=7, help="after one round of warm-up")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = [scheme.label for scheme in options.schemes]
    for batch, length in ((16, 128), (4, 512)):
        torch.manual_seed(1)
        words = torch.randn(batch, length, options.dim)
        encoders = {scheme.label: build(scheme, options, length) for scheme in options.schemes}
        kept = {name: kept_by(encoder, words) / 2**20 for name, encoder in encoders.items()}
        middle = step_seconds(encoders, words, options.rounds)
        print(
            f"\n{batch} x {length} tokens: CPU seconds and MiB kept, with ratios to {names[0]}",
            flush=True,
        )
        for name in names:
            ratios = [x[name] / x[names[0]] for x in (middle, kept)]
            row = f"{middle[name]:6.3f} {ratios[0]:5.2f} {kept[name]:7.1f} {ratios[1]:5.2f}"
            print(f"{name:24} {row}", flush=True)


def build(scheme: Scheme, options: argparse.Namespace, length: int) -> TupeEncoder:
    sizes = {"embed_dim": options.dim, "num_heads": options.dim // 64, "num_layers": options.layers}
    sizes |= {"ffn_embed_dim": 4 * options.dim, "max_positions": length}
    positions: dict[str, Any] = {"position_encoding": scheme.name}
    for word in scheme.flags:
        if word.startswith("--"):
            positions[flag := word[2:].replace("-", "_")] = True
        else:
            positions[flag] = ast.literal_eval(word)
    return TupeEncoder(TupeConfig(**sizes, **positions))


def step_seconds(
    encoders: dict[str, TupeEncoder], words: torch.Tensor, rounds: int
) -> dict[str, float]:
    """The median CPU time of a forward and a backward pass, after one round of warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(1 + rounds):
        for name, encoder in encoders.items():
            begin = time.process_time()
            encoder(words).sum().backward()
            seconds[name].append(time.process_time() - begin)
    return {name: statistics.median(x[1:]) for name, x in seconds.items()}


def kept_by(encoder: TupeEncoder, words: torch.Tensor) -> int:
    """The bytes of all tensors that the backward pass needs, parameters aside."""
    sizes: dict[int, int] = {x.untyped_storage().data_ptr(): 0 for x in encoder.parameters()}

    def keep(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        sizes.setdefault(storage.data_ptr(), storage.nbytes())
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        encoder(words)
    return sum(sizes.values())


if __name__ == "__main__":
    main()
