"""tupe-predict against a plain loop: sentences a second, and memory.

    python scripts/benchmarks/predict.py --text sentences.txt                      # some minutes
    python scripts/benchmarks/predict.py --text sentences.txt --rows 20000         # one or two

Sentences of FILE, one a line, are classified by a model of random weights, whose speed is that of a
trained one: by tupe-predict's core, and by a loop that takes them in the order of the file, 32 at a
time and padded to the longest. Then the command itself: its peak memory for a tenth of the rows and
for all.
"""

import argparse
import itertools
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import sentencepiece
import torch

from tupe_fairseq import TupeConfig
from tupe_fairseq.checkpoint.checkpoint import (
    ENCODER,
    VOCABULARY,
    symbols_of,
    vocabulary_version,
)
from tupe_fairseq.checkpoint.convert import dictionary_lines
from tupe_fairseq.data.dictionary import PAD, write_dictionary
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.data.task import CLASSIFICATION, Task
from tupe_fairseq.data.text_files import clean_line
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.inference import texts as inference
from tupe_fairseq.inference.model import WordEncoder, load

COMMAND = [sys.executable, "-m", "tupe_fairseq", "predict"]
# a process counts as its own what the one that started it had: here a small one
MEASURED = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)
"""
# layers, width, heads
SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "base": (12, 768, 12)}
MAX_POSITIONS = 128
LOOP_ROWS, CHUNK_ROWS = 32, 8192
HEAD = "classification_heads.sentence_classification_head."


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--text", type=Path, required=True, metavar="FILE", help="sentences, plain or .xz")
    add("--rows", type=int, default=200_000, help="default %(default)s")
    add("--size", choices=SIZES, default="mini", help="of the model; default %(default)s")
    add("--output-dir", type=Path, default=Path("predict-benchmark"), help="default: %(default)s")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    options = parser.parse_args(arguments)
    if options.rows < 100:
        parser.error(f"--rows ({options.rows}) must be at least 100")
    return options


def sentences(path, rows):
    """The first ones of a file, in an order that has nothing to do with their lengths."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        lines = (line.strip() for line in file)
        found = list(itertools.islice((line for line in lines if line and "\t" not in line), rows))
    if len(found) < rows:
        raise SystemExit(f"{path} has {len(found)} sentences; give --rows {len(found)} or less")
    random.Random(1).shuffle(found)
    return found


def write_model(folder, size, texts):
    """A checkpoint with all that tupe-finetune puts beside it."""
    layers, width, heads = SIZES[size]
    task = Task(
        "benchmark", CLASSIFICATION, ("no", "yes"), 1, ("train",), ("accuracy",), "accuracy"
    )
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=map(clean_line, texts[:20_000]), vocab_size=4000, model_type="bpe",
        model_prefix=str(folder / "sentencepiece.bpe"), hard_vocab_limit=False, unk_id=3, bos_id=0,
        pad_id=1, eos_id=2, user_defined_symbols=["<mask>"], minloglevel=2,
    )  # fmt: skip
    words = SentencePiece(str(folder / "sentencepiece.bpe.model")).words()
    write_dictionary(str(folder / "dict.txt"), words)
    report = {"description": task.to_record(), "text_treatment": {"unicode": "NFC"}}
    (folder / "report.json").write_text(json.dumps(report))
    symbols = symbols_of(dictionary_lines(str(folder / "dict.txt")))
    torch.manual_seed(1)
    encoder = WordEncoder(
        TupeConfig(
            embed_dim=width, num_heads=heads, num_layers=layers, ffn_embed_dim=4 * width,
            max_positions=MAX_POSITIONS, rel_pos=True,
        ),
        len(symbols),
    )  # fmt: skip
    tensors = {ENCODER + name: tensor for name, tensor in encoder.state_dict().items()}
    tensors[VOCABULARY] = vocabulary_version(symbols)
    for part, outputs in (("dense", width), ("out_proj", task.num_classes)):
        layer = torch.nn.Linear(width, outputs)
        for name, tensor in layer.state_dict().items():
            tensors[f"{HEAD}{part}.{name}"] = tensor
    options = argparse.Namespace(
        arch="tupe_roberta", task="glue_sentence_prediction", max_positions=MAX_POSITIONS,
        encoder_layers=layers, encoder_embed_dim=width, encoder_ffn_embed_dim=4 * width,
        encoder_attention_heads=heads, position_encoding="tupe", rel_pos=True,
    )  # fmt: skip
    torch.save({"args": options, "model": tensors}, folder / "model.pt")
    return folder / "model.pt", task


def loop(model, tokenizer, task, rows):
    """What one would write: batches in the order of the file, padded to the longest."""
    found = []
    for start in range(0, len(rows), LOOP_ROWS):
        batch = rows[start : start + LOOP_ROWS]
        ids = inference.encode_rows(batch, tokenizer, MAX_POSITIONS)
        longest = max(map(len, ids))
        tokens = torch.tensor([row + [PAD] * (longest - len(row)) for row in ids])
        with torch.inference_mode():
            hidden = model.encoder(model.encoder.embed_tokens(tokens), tokens.eq(PAD))
            shares = model.head(hidden, tokens.ne(PAD)).softmax(dim=-1)
        best = shares.argmax(dim=-1).tolist()
        found += [(task.labels[n], share[n].item()) for n, share in zip(best, shares)]
    return found


def measure_speed(checkpoint, task, texts):
    """Sentences a second, and the greatest difference of two probabilities."""
    model = load(str(checkpoint), str(checkpoint.parent))
    tokenizer = Tokenizer.load(str(checkpoint.parent))

    def core(rows):
        found = inference.predict(rows, task, tokenizer, model.encoder, model.head)
        return [tuple(one.values()) for one in found]

    ways = {"plain loop": lambda rows: loop(model, tokenizer, task, rows), "core": core}
    seconds, difference = dict.fromkeys(ways, 0.0), 0.0
    # in turn, so that what else the machine does slows all of them down
    for start in range(0, len(texts), CHUNK_ROWS):
        rows = [[text] for text in texts[start : start + CHUNK_ROWS]]
        found = {}
        for name, way in ways.items():
            begin = time.perf_counter()
            found[name] = way(rows)
            seconds[name] += time.perf_counter() - begin
        pairs = zip(found["plain loop"], found["core"])
        difference = max(difference, *(_apart(one, other) for one, other in pairs))
    return {name: len(texts) / one for name, one in seconds.items()}, difference


def _apart(one, other):
    """How far two probabilities of the same label are apart, of two labels."""
    return abs(one[1] - (other[1] if one[0] == other[0] else 1 - other[1]))


def write_rows(path, texts):
    lines = (f"{number}\t{text}\n" for number, text in enumerate(texts))
    path.write_text("number\ttext\n" + "".join(lines), encoding="utf-8")
    return path


def predict(checkpoint, source, output):
    """Run the command; its peak memory in MB."""
    words = [*COMMAND, checkpoint, source, "--cpu", "--output-file", output]
    process = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} failed")
    return int(process.stdout.split()[-1]) / 1024


def main(arguments=None):
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    folder = options.output_dir
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = sentences(options.text, options.rows)
    checkpoint, task = write_model(folder, options.size, texts)
    rates, difference = measure_speed(checkpoint, task, texts)
    few = write_rows(folder / "few.tsv", texts[: options.rows // 10])
    every = write_rows(folder / "every.tsv", texts)
    memory = {
        options.rows // 10: predict(checkpoint, few, folder / "few-out.tsv"),
        options.rows: predict(checkpoint, every, folder / "out.tsv"),
    }
    results = {
        "rows": options.rows,
        "size": options.size,
        "sentences_per_second": rates,
        "difference": difference,
        "peak_megabytes": memory,
    }
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    for name, rate in rates.items():
        ratio = rate / rates["plain loop"]
        print(f"{name}: {rate:,.0f} sentences a second, {ratio:.2f} times the plain loop")
    print(f"probabilities differ by {difference:.1e} at most")
    for rows, peak in memory.items():
        print(f"tupe-predict with {rows:,} rows: {peak:,.0f} MB at its peak")


if __name__ == "__main__":
    main()
