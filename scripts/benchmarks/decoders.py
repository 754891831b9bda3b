"""Training steps and beam search of our decoders and of fairseq's own models, in one process.

python scripts/benchmarks/decoders.py [--threads 1] [--rounds 5] [--encodings tupe,rope]

Prints, for a language model and for translation, the median time as a ratio to fairseq's
``transformer_lm`` and ``transformer`` of the same size, which take turns with ours.
"""

import argparse
import statistics
import time

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.models.transformer_lm import TransformerLanguageModel, base_lm_architecture
from fairseq.sequence_generator import SequenceGenerator

import tupe_fairseq

tupe_fairseq.register()

from tupe_fairseq.models.tupe_transformer import TupeTransformer, tupe_architecture  # noqa: E402
from tupe_fairseq.models.tupe_transformer_lm import (  # noqa: E402
    TupeLanguageModel,
    tupe_lm_architecture,
)
from tupe_fairseq.options import POSITION_ENCODINGS  # noqa: E402

LAYERS, DIM, HEADS, FFN, VOCABULARY, LONGEST = 4, 256, 4, 1024, 8000, 512


class Task:
    """What a model needs of its task."""

    source_dictionary = target_dictionary = Dictionary()


for number in range(VOCABULARY):
    Task.source_dictionary.add_symbol(f"w{number}")
PAD, EOS = Task.source_dictionary.pad(), Task.source_dictionary.eos()


def build(kind: str, scheme: str | None):
    """A model with this scheme; None for fairseq's own model, with learned positions."""
    sides = ["decoder"] if kind == "lm" else ["encoder", "decoder"]
    args = argparse.Namespace(
        activation_fn="relu",
        max_source_positions=LONGEST,
        max_target_positions=LONGEST,
        share_decoder_input_output_embed=True,
        share_all_embeddings=kind != "lm",
    )
    for side in sides:
        sizes = {"layers": LAYERS, "embed_dim": DIM, "ffn_embed_dim": FFN, "attention_heads": HEADS}
        for name, size in sizes.items():
            setattr(args, f"{side}_{name}", size)
    if scheme is None:
        args.decoder_learned_pos = args.encoder_learned_pos = True
        (base_lm_architecture if kind == "lm" else base_architecture)(args)
        return (TransformerLanguageModel if kind == "lm" else TransformerModel).build_model(
            args, Task
        )
    name, _, rel_pos = scheme.partition("+")
    args.position_encoding, args.rel_pos = name, bool(rel_pos)
    if kind == "lm":
        tupe_lm_architecture(args)
        return TupeLanguageModel.build_model(args, Task)
    tupe_architecture(args)
    return TupeTransformer.build_model(args, Task)


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, shape)


def training_step(model, kind: str):
    """Seconds of forward and backward pass, 16 samples of 128 tokens, or pairs of 40."""
    model.train()
    x = tokens(16, 128 if kind == "lm" else 40)
    given = (x,) if kind == "lm" else (tokens(16, 40), torch.full((16,), 40), x)
    start = time.perf_counter()
    logits = model(*given)[0]
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten()).backward()
    model.zero_grad()
    return time.perf_counter() - start


@torch.no_grad()
def generation(model, kind: str):
    """Seconds of a beam search, 5 beams, 8 sentences, 60 tokens each."""
    model.eval()
    generator = SequenceGenerator(
        [model], Task.target_dictionary, beam_size=5, max_len_a=0, max_len_b=60, min_len=60
    )
    x = tokens(8, 30)
    net_input = {"src_tokens": x, "src_lengths": torch.full((8,), 30)}
    prefix = tokens(8, 1) if kind == "lm" else None
    start = time.perf_counter()
    generator.generate([model], {"net_input": net_input}, prefix_tokens=prefix)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--threads", type=int, default=1, help="default 1")
    add("--rounds", type=int, default=5, help="default 5")
    schemes = ",".join(["tupe", "tupe+rel_pos", "none+rel_pos", *list(POSITION_ENCODINGS)[1:]])
    add("--encodings", default=schemes, help="default: all")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("| encoding | LM step | LM beam 5 | translation step | translation beam 5 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for scheme in args.encodings.split(","):
        cells = []
        for kind in ("lm", "translation"):
            torch.manual_seed(1)
            models = [build(kind, None), build(kind, scheme)]
            for job in (training_step, generation):
                times = [[job(model, kind) for model in models] for _ in range(args.rounds + 1)]
                ratios = [ours / theirs for theirs, ours in times[1:]]
                cells.append(f"{statistics.median(ratios):.2f}")
        print(
            f"| {scheme.replace('+', ' --').replace('_', '-')} | {' | '.join(cells)} |", flush=True
        )


if __name__ == "__main__":
    main()
