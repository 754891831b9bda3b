"""Inference with a model folder in padded batches, beside MPNet and DeBERTa-v2 of equal size.

    python scripts/benchmarks/folder.py                    # random weights; 10 minutes on 2 cores
    python scripts/benchmarks/folder.py --folder my-model  # a folder of tupe-export

Each model takes sentences of unequal lengths, padded to the longest, and as many of their mean
length, without padding, in alternating rounds.  Compare only ratios from one run on an otherwise
idle machine.  Needs torch and transformers and, without --folder, this package.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import torch
import transformers

from parts.timing import compare

SIZES = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2},
    "small": {"num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8},
    "base": {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12},
}
#: tokens of 32 sentences of SST-2, and of eight passages
BATCHES = {
    "32 sentences": [
        3, 3, 4, 4, 4, 6, 6, 6, 6, 7, 7, 8, 8, 8, 10, 10, 11, 12, 12, 13, 14, 16, 17, 18, 20, 21,
        23, 24, 28, 31, 36, 43,
    ],
    "8 passages": [41, 57, 76, 98, 124, 156, 198, 256],
}  # fmt: skip
VOCABULARY, LONGEST = 32768, 512
TUPE = "tupe, sdpa"


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output-dir", type=Path, default=Path("folder-benchmark"), help="default: %(default)s")
    add("--folder", help="a model folder; default: TUPE-R with random weights, in each size")
    add("--sizes", nargs="+", choices=SIZES, default=["base", "small"], help="default: base small")
    add("--rounds", type=int, default=5, help="rounds measured, after a warm-up; default 5")
    add("--threads", type=int, help="CPU threads; default: torch's")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds ({options.rounds}) must be at least 1")
    if options.folder is not None and not os.path.isfile(
        os.path.join(options.folder, "config.json")
    ):
        parser.error(f"--folder {options.folder} holds no config.json")
    return options


def tupe_of(sizes):
    """TUPE-R with random weights, of the file that every model folder has."""
    from tupe_fairseq.export.modeling_tupe import TupeConfig, TupeModel

    return TupeModel(TupeConfig(rel_pos=True, **sizes, attn_implementation="sdpa"))


def competitors(sizes):
    """MPNet and DeBERTa-v2 (with the options of v3), which have no fused attention there."""
    mpnet = transformers.MPNetConfig(**sizes)
    deberta = transformers.DebertaV2Config(
        **sizes, type_vocab_size=0, relative_attention=True, position_buckets=256,
        pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
        position_biased_input=False,
    )  # fmt: skip
    return {
        "mpnet, eager": transformers.MPNetModel(mpnet, add_pooling_layer=False),
        "deberta-v2, eager": transformers.DebertaV2Model(deberta),
    }


def models_of(size, folder):
    """{name: model}, all of one size."""
    sizes = {"vocab_size": VOCABULARY, "max_position_embeddings": LONGEST}
    if folder is None:
        sizes.update(SIZES[size], intermediate_size=4 * SIZES[size]["hidden_size"])
        ours = tupe_of(sizes)
    else:
        ours = transformers.AutoModel.from_pretrained(
            folder, trust_remote_code=True, attn_implementation="sdpa"
        )
        names = (*SIZES["base"], "intermediate_size")
        sizes.update({name: getattr(ours.config, name) for name in names})
    return {name: m.float().eval() for name, m in {TUPE: ours, **competitors(sizes)}.items()}


def batch_of(lengths, vocabulary):
    """Ids and mask of random tokens."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(5, min(vocabulary, VOCABULARY), mask.shape).masked_fill(~mask, 1)
    return {"input_ids": ids, "attention_mask": mask.long()}


def measure(models, lengths, rounds):
    """{name: {"padded", "not padded": seconds of each round, per real token}}"""
    mean = round(sum(lengths) / len(lengths))
    kinds = {"padded": lengths, "not padded": [mean] * len(lengths)}
    calls, tokens = {}, {}
    for name, model in models.items():
        for kind, of_kind in kinds.items():
            batch = batch_of(of_kind, model.config.vocab_size)
            calls[name, kind] = lambda model=model, batch=batch: model(**batch)
            tokens[kind] = sum(of_kind)
    samples = compare(calls, rounds)
    found = {name: {} for name in models}
    for (name, kind), sample in samples.items():
        found[name][kind] = [seconds / tokens[kind] for seconds in sample.seconds]
    return found


def summary(found):
    """{name: medians in microseconds, and medians of the ratios of single rounds}"""

    def ratio(a, b):
        return statistics.median(x / y for x, y in zip(a, b))

    return {
        name: {
            **{kind: 1e6 * statistics.median(seconds) for kind, seconds in of_model.items()},
            "padded to not padded": ratio(of_model["padded"], of_model["not padded"]),
            "padded, to tupe": ratio(of_model["padded"], found[TUPE]["padded"]),
        }
        for name, of_model in found.items()
    }


@torch.no_grad()
def main(arguments=None):
    options = parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    results = {
        **versions,
        "threads": torch.get_num_threads(),
        "rounds": options.rounds,
        "cases": {},
    }
    print(f"{json.dumps(results)[1:-1]}; microseconds per real token, float32")
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for size in options.sizes if options.folder is None else [options.folder]:
        models = models_of(size, options.folder)
        for title, lengths in BATCHES.items():
            found = measure(models, lengths, options.rounds)
            rows = summary(found)
            title = f"{size}, {title} of {min(lengths)} to {max(lengths)} tokens"
            print(f"\n{title:42}" + "".join(f"{column:>22}" for column in rows[TUPE]))
            for name, row in rows.items():
                numbers = "".join(f"{x:22.2f}" for x in row.values())
                print(f"{name:42}{numbers}", flush=True)
            results["cases"][title] = {"summary": rows, "seconds_per_token": found}
            path = options.output_dir / "results.json"
            path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
