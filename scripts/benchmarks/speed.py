"""Time and memory of base-size models: this plugin compared with fairseq's own RoBERTa.

    python scripts/benchmarks/speed.py                     # 15 minutes on two cores
    python scripts/benchmarks/speed.py --other CHECKOUT    # also with another version of ours

Each model has its own process. The processes take the same step in turn, so that a slow moment of
the machine affects all of them. Compare only ratios within one run. Prints a table and writes JSON.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
VOCAB_SIZE = 50265  # RoBERTa's
# lengths of 32 sentences of SST-2's training set, in even quantiles
SHORT = [3, 3, 4, 4, 4, 6, 6, 6, 6, 7, 7, 8, 8, 8, 10, 10, 11, 12, 12, 13, 14, 16, 17, 18, 20, 21]
SHORT += [23, 24, 28, 31, 36, 43]

PADDED = [512, 427, 341, 256]
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}  # for both models
UNPAD = {"unpad": True}  # for --other: older versions pack tokens only with this option
# name: (what is done, lengths of the batch, flags, title)
CASES = {
    "train-512": ("train", [512] * 4, {}, "training step, T512, dropout 0.1"),
    "train-128": ("train", [128] * 16, {}, "training step, T128, dropout 0.1"),
    "train-512-no-dropout": ("train", [512] * 4, NO_DROPOUT, "training step, T512, no dropout"),
    "infer": ("infer", [512] * 4, {}, "inference, T512"),
    "infer-padded": ("infer", PADDED, UNPAD, "inference, T512, a quarter padding"),
    "finetune-short": ("classify", SHORT, UNPAD, "fine-tuning step, short sentences"),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--other", type=Path, help="checkout of another version")
    parser.add_argument("--only", help=f"comma-separated: {', '.join(CASES)}")
    parser.add_argument("--times", type=int, default=1, help="multiplies the size of the batches")
    parser.add_argument("--rounds", type=int, default=7, help="after two rounds of warm-up")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--layers", type=int, default=12, help="default 12, the base size")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (bfloat16)")
    parser.add_argument("--position-encoding", default="tupe", help="default tupe, with --rel-pos")
    parser.add_argument("--output", type=Path, default=Path("speed.json"))
    parser.add_argument("--worker", nargs=2, metavar=("MODEL", "CASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(*options.worker, options)
    versions = {"stock": REPO, "tupe": REPO}
    if options.other:
        versions["other"] = options.other.resolve()
    machine = f"{platform.machine()}, {options.threads} threads, {platform.python_version()}"
    if options.device == "cuda":
        import torch

        machine += f", {torch.cuda.get_device_name()}, torch {torch.__version__}"
    results = {"machine": machine, "batch_times": options.times}
    print(results["machine"], flush=True)
    for case in options.only.split(",") if options.only else CASES:
        results[case] = measure(case, versions, options)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(case, versions, options):
    """Medians of each model and their ratios, from processes that take turns."""
    processes = {name: start(name, repo, case) for name, repo in versions.items()}
    samples = {name: [] for name in processes}
    for _ in range(2 + options.rounds):
        for name, process in processes.items():
            process.stdin.write("step\n")
            process.stdin.flush()
            samples[name].append(json.loads(process.stdout.readline()))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    rows_in_batch = len(CASES[case][1]) * options.times
    print(f"\n{CASES[case][3]}, {rows_in_batch} sequences")
    seconds = {name: [one["seconds"] for one in sample[2:]] for name, sample in samples.items()}
    rows = {}
    for name, sample in samples.items():
        ratios = [ours / its for ours, its in zip(seconds["tupe"], seconds[name])]
        rows[name] = row = {
            "median_s": statistics.median(seconds[name]),
            "peak_gib": sample[-1]["peak_gib"],
            "tupe_over_it": statistics.median(seconds["tupe"]) / statistics.median(seconds[name]),
            "least": min(ratios),
            "most": max(ratios),
        }
        print(
            f"  {name:6} {row['median_s']:8.3f} s  tupe takes {row['tupe_over_it']:.2f} of it "
            f"(single rounds {row['least']:.2f} to {row['most']:.2f}), {row['peak_gib']:.1f} GiB",
            flush=True,
        )
    return rows


def start(name, repo, case):
    arguments = [sys.executable, __file__, *sys.argv[1:], "--worker", name, case]
    path = os.pathsep.join([str(repo), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        arguments, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


# ---- In a process of its own: one model ----------------------------------------------------------


def work(model, case, options):
    """Make a step for each line of standard input, and print its time and the peak memory."""
    import resource
    import time

    import torch

    torch.set_num_threads(options.threads)
    step = make_step(model, case, options)
    for _ in sys.stdin:
        begin = time.perf_counter()
        step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        if options.device == "cuda":
            peak = torch.cuda.max_memory_allocated() / 2**30
        print(json.dumps({"seconds": seconds, "peak_gib": peak}), flush=True)
    return 0


def make_step(name, case, options):
    import logging

    import torch
    import torch.nn.functional as F
    from fairseq.optim.adam import Adam

    logging.disable(logging.WARNING)
    kind, lengths, flags, _ = CASES[case]
    lengths = lengths * options.times
    device = torch.device(options.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.manual_seed(1)
    model = build(name, max(lengths), flags, options)
    if kind == "classify":
        model.register_classification_head("benchmark", num_classes=2)
    model.to(device, dtype)
    tokens = torch.randint(4, VOCAB_SIZE - 1, (len(lengths), max(lengths)))
    tokens[:, 0] = 0
    tokens[torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]] = 1
    is_masked = (torch.rand(tokens.shape) < 0.15) & tokens.gt(3)
    tokens, is_masked = tokens.to(device), is_masked.to(device)
    labels = torch.zeros(len(lengths), dtype=torch.long, device=device)
    if kind == "infer":
        model.eval()
        return torch.no_grad()(lambda: model(tokens, features_only=True))
    optimizer = Adam(model.parameters(), lr=1e-4)  # fairseq's own

    def train():
        if kind == "classify":
            logits, _ = model(tokens, features_only=True, classification_head_name="benchmark")
            loss = F.cross_entropy(logits.float(), labels)
        else:
            logits, _ = model(tokens, masked_tokens=is_masked)
            loss = F.cross_entropy(logits.float(), tokens[is_masked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return train


def build(name, seq_len, flags, options):
    """A model with random weights: stock RoBERTa, or TUPE-R."""
    import torch.nn.functional as F
    from fairseq.data import Dictionary
    from fairseq.models.roberta import RobertaModel
    from fairseq.models.roberta import base_architecture as stock_architecture
    from fairseq.tasks.masked_lm import MaskedLMTask

    dictionary = Dictionary()
    while len(dictionary) < VOCAB_SIZE - 1:
        dictionary.add_symbol(f"w{len(dictionary)}")
    args = argparse.Namespace(
        encoder_layers=options.layers, tokens_per_sample=seq_len, max_positions=seq_len, seed=1
    )
    vars(args).update(flags)  # of these, stock RoBERTa reads only the dropout
    task = MaskedLMTask(args, dictionary)
    if name == "stock":
        stock_architecture(args)
        model = RobertaModel.build_model(args, task)
        for layer in model.encoder.sentence_encoder.layers:
            layer.activation_fn = F.gelu  # fairseq's own converts to float32 and back
        return model
    from tupe_fairseq.models.tupe_roberta import TupeRobertaModel, base_architecture

    args.position_encoding, args.rel_pos = (
        options.position_encoding,
        options.position_encoding == "tupe",
    )
    base_architecture(args)
    return TupeRobertaModel.build_model(args, task)


if __name__ == "__main__":
    sys.exit(main())
