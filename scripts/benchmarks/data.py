"""How fast tupe-prepare-pretrain is, and how much memory it takes as the text grows.

    python scripts/benchmarks/data.py --output-dir data-benchmark                  # half an hour
    python scripts/benchmarks/data.py --output-dir data-benchmark --sizes-mb 500,1000,2000

Measures on one core the cleaning, in MB of raw text per second, and the encoding, compared with
SentencePiece's own on the same lines in alternating rounds.  Then runs the whole command on texts
of growing size and samples the memory of all its processes from /proc, so it needs Linux.  The text
is a corpus repeated, with the number of the copy added to each line to make all lines differ.
Writes results.json and results.md.
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import sentencepiece

from tupe_fairseq.text.cleaning import Cleaner
from tupe_fairseq.text.parallel import in_child
from tupe_fairseq.text.piece_encoder import PieceEncoder
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.reading import TextFile
from tupe_fairseq.text.treatment import TextTreatment
from tupe_fairseq.text.vocabulary import learn_model


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output-dir", type=Path, required=True, metavar="OUT", help="results and scratch data")
    add("--input", type=Path, metavar="FILE", help="text to repeat; default: build_corpus.py's")
    add(
        "--sizes-mb",
        default="100,500",
        help="text sizes of the whole runs, in MB, or none; default %(default)s",
    )
    add(
        "--sample-mb",
        type=float,
        default=8,
        help="text size of the speed measurements, in MB; its vocabulary is learned from it; "
        "default %(default)s",
    )
    add(
        "--rounds",
        type=int,
        default=5,
        help="rounds of the speed measurements; default %(default)s",
    )
    add(
        "--workers",
        type=int,
        default=os.cpu_count(),
        help="workers of the whole runs; default: cores",
    )
    add("--vocab-size", type=int, default=32768, help="default %(default)s")
    options = parser.parse_args(arguments)
    words = [] if options.sizes_mb == "none" else options.sizes_mb.split(",")
    try:
        options.sizes = [float(word) for word in words]
    except ValueError:
        options.sizes = [0.0]
    if not all(0 < size < math.inf for size in options.sizes):
        parser.error(f"--sizes-mb ({options.sizes_mb}) must be numbers such as 100,500, or none")
    if options.rounds < 1:
        parser.error(f"--rounds ({options.rounds}) must be at least 1")
    if not 0 < options.sample_mb < math.inf:
        parser.error(f"--sample-mb ({options.sample_mb}) must be a number above 0")
    return options


def corpus(options):
    """The file to repeat."""
    if options.input:
        return options.input
    folder = options.output_dir / "corpus"
    script = Path(__file__).resolve().parents[1] / "build_corpus.py"
    subprocess.run([sys.executable, script, folder], check=True, stdout=subprocess.DEVNULL)
    return folder / "train.txt"


def repeat(source, path, megabytes):
    """Write so many MB of it, all lines different."""
    written = copy = 0
    size = round(megabytes * 10**6)
    with open(path, "wb") as out:
        while written < size:
            copy += 1
            before = written
            for block in TextFile(str(source)).blocks():
                lines = [line + b" %d" % copy if line else line for line in block.split(b"\n")[:-1]]
                block = b"\n".join(lines) + b"\n"
                room = size - written
                if room <= 0:
                    break
                written += out.write(block if len(block) <= room else block[:room])
            if written == before:
                raise SystemExit(f"{source} is empty")


def seconds(function, blocks):
    start = time.process_time()
    for block in blocks:
        function(block)
    return time.process_time() - start


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def cleaning(blocks, rounds):
    """MB of raw text per second of one core."""
    size = sum(map(len, blocks)) / 1e6
    cleaner = Cleaner(TextTreatment())
    return spread([size / seconds(cleaner, blocks) for _ in range(rounds)])


def learn(clean, options):
    """A vocabulary of clean text, as the command learns it; the model's file."""
    text, model = options.output_dir / "clean.txt", options.output_dir / "sample.model"
    text.write_bytes(b"".join(clean))
    words = (options.vocab_size, "unigram", 0.9995, False)
    model.write_bytes(
        in_child(learn_model, [str(text)], 64 << 20, *words, killed="lower --sample-mb")
    )
    text.unlink()
    return model


def encoding(clean, rounds, model):
    """Our seconds divided by SentencePiece's; ours also makes fairseq's numbers of the ids."""
    pieces, dictionary = Pieces(str(model)), str(model.with_suffix(".dict"))
    pieces.write_dictionary(dictionary)
    ours = PieceEncoder(pieces, dictionary, 510)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def to_ids(block):
        theirs.encode(block.decode().split("\n"), out_type=int, num_threads=1)

    def to_pieces(block):
        theirs.encode(block.decode().split("\n"), out_type=str, num_threads=1)

    ways = {"ours": ours, "ids": to_ids, "pieces": to_pieces}
    times = {name: [] for name in ways}
    for round_ in range(rounds + 1):
        for name, way in ways.items():
            spent = seconds(way, clean)
            if round_:  # the first one is a warm-up
                times[name].append(spent)
    megabytes = sum(map(len, clean)) / 1e6
    return {
        "mb_per_s": {name: megabytes / statistics.median(spent) for name, spent in times.items()},
        "ratio_to_ids": spread([a / b for a, b in zip(times["ours"], times["ids"])]),
        "ratio_to_pieces": spread([a / b for a, b in zip(times["ours"], times["pieces"])]),
    }


def tree(root):
    """A process and all its descendants."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # the name in parentheses may contain anything
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def memory(processes):
    """MB that the processes hold: shared pages count once (PSS), or in each process (RSS)."""
    total = {"Pss:": 0, "Rss:": 0}
    for process in processes:
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        for line in text.splitlines():
            name, *rest = line.split()
            if name in total:
                total[name] += int(rest[0]) * 1024
    return total["Pss:"] / 1e6, total["Rss:"] / 1e6


def whole_run(text, folder, options, keep=lambda run: None):
    """Time and peak memory of the command; ``keep`` gets the results so far after each step."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "tupe_fairseq.commands.prepare_pretrain", "--input", text]
    command += ["--output-dir", folder, "--workers", options.workers]
    command += ["--vocab-size", options.vocab_size]
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, command)))
    peaks, finished = {}, []
    run = {"mb": text.stat().st_size / 1e6, "finished": False, "after_step": peaks}
    while process.poll() is None:
        pss, rss = memory(tree(process.pid))
        steps = folder / "steps.json"
        if steps.exists():
            finished = list(json.loads(steps.read_text())["finished"])
        after = finished[-1] if finished else "start"
        if after not in peaks:
            keep(run)
        peak = peaks.setdefault(after, {"pss_mb": 0, "rss_mb": 0, "until_s": 0})
        peak["pss_mb"] = max(peak["pss_mb"], pss)
        peak["rss_mb"] = max(peak["rss_mb"], rss)
        peak["until_s"] = time.monotonic() - start
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"tupe-prepare-pretrain ended with exit code {process.returncode}")
    run["finished"] = True
    run["seconds"] = time.monotonic() - start
    run["peak_pss_mb"] = max(peak["pss_mb"] for peak in peaks.values())
    run["peak_rss_mb"] = max(peak["rss_mb"] for peak in peaks.values())
    run["tokens"] = json.loads((folder / "report.json").read_text())["tokens"]["train"]
    keep(run)


def table(results):
    """The results as markdown."""
    clean, encode = results["cleaning_mb_per_s"], results["encoding"]
    lines = ["| one core | median | least | most |", "| --- | ---: | ---: | ---: |"]
    rows = {
        "cleaning, MB/s of raw text": clean,
        "encoding, time / SentencePiece's to ids": encode["ratio_to_ids"],
        "encoding, time / SentencePiece's to pieces": encode["ratio_to_pieces"],
    }
    for name, row in rows.items():
        lines.append(f"| {name} | {row['median']:.2f} | {row['least']:.2f} | {row['most']:.2f} |")
    if results["runs"]:
        lines += ["", "| text, MB | seconds | tokens | peak memory, MB (PSS) | sum of RSS, MB |"]
        lines += ["| ---: | ---: | ---: | ---: | ---: |"]
    for run in results["runs"]:
        if not run["finished"]:
            continue
        lines.append(
            f"| {run['mb']:g} | {run['seconds']:.0f} | {run['tokens']:,} "
            f"| {run['peak_pss_mb']:.0f} | {run['peak_rss_mb']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments=None):
    options = parse(arguments)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    source = corpus(options)
    sample = options.output_dir / "sample.txt"
    repeat(source, sample, options.sample_mb)
    blocks = list(TextFile(str(sample)).blocks())
    folder = options.output_dir / "prepared"
    results = {
        "machine": {"cpu": platform.processor(), "cores": os.cpu_count()},
        "python": platform.python_version(),
        "sentencepiece": sentencepiece.__version__,
        "sample_mb": options.sample_mb,
        "workers": options.workers,
        "vocab_size": options.vocab_size,
    }
    results["cleaning_mb_per_s"] = cleaning(blocks, options.rounds)
    clean = [Cleaner(TextTreatment())(block).lines.content for block in blocks]
    results["encoding"] = encoding(clean, options.rounds, learn(clean, options))
    results["runs"] = []

    def save():
        # after each step, since the large ones take long
        (options.output_dir / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        (options.output_dir / "results.md").write_text(table(results))

    save()
    for size in options.sizes:
        text = options.output_dir / "text.txt"
        repeat(source, text, size)
        results["runs"].append({})

        def keep(run):
            results["runs"][-1] = run
            save()

        whole_run(text, folder, options, keep)
        text.unlink()
        shutil.rmtree(folder)
    sample.unlink()
    print(table(results), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
