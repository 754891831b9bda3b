"""How long tupe-prepare-pretrain takes, and its memory, beside SentencePiece's encoding alone.

    python scripts/benchmarks/prepare.py --input text.xz --output-dir OUT

The text is --input, repeated up to --size-mb with the number of the copy added to each line. Each
round runs the command with a vocabulary to learn, then with the one that it learned, and then
SentencePiece's own encoding of the text by as many processes. Besides seconds there is the CPU time
of all processes, which depends less on what else the machine does, and the peak of their memory,
sampled from /proc (Linux; shared pages count once). Writes results.json and results.md.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tupe_fairseq.data.text_files import open_text
from tupe_fairseq.files import markdown_table

COMMAND = Path(sys.executable).parent / "tupe-prepare-pretrain"
LEARNED, GIVEN, ENCODING = "learned vocabulary", "given vocabulary", "SentencePiece alone"
# the text in blocks of lines, by as many processes; nothing is done with the ids
ENCODE = """
import multiprocessing, sys
import sentencepiece

def start(model):
    global processor
    processor = sentencepiece.SentencePieceProcessor(model_file=model)

def encode(block):
    return sum(map(len, processor.encode(block, out_type=int, num_threads=1)))

text, model, workers = sys.argv[1:]
with multiprocessing.get_context("fork").Pool(int(workers), start, (model,)) as pool:
    with open(text, encoding="utf-8", newline="\\n") as file:
        blocks = iter(lambda: file.readlines(1 << 20), [])
        print(sum(pool.imap(encode, blocks)))
"""


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--input", type=Path, required=True, metavar="FILE", help="text to repeat")
    add("--output-dir", type=Path, required=True, metavar="OUT", help="results and scratch data")
    add("--size-mb", type=float, default=500, help="of the text; default %(default)s")
    add("--rounds", type=int, default=5, help="default %(default)s")
    add("--workers", type=int, default=2, help="default %(default)s")
    add("--vocab-size", type=int, default=32768, help="default %(default)s")
    return parser.parse_args(arguments)


def repeat(source, path, megabytes):
    """Write so many MB of it, all lines different."""
    room, copy = round(megabytes * 10**6), 0
    with open(path, "wb") as out:
        while room > 0:
            copy += 1
            with open_text(str(source)) as (file, _):
                for line in file:
                    line = line.rstrip(b"\n") + (b" %d" % copy if line.strip() else b"") + b"\n"
                    room -= out.write(line)
                    if room <= 0:
                        return


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
    """MB that the processes hold."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / 1e6


def measured(*command):
    """Seconds, CPU seconds and peak memory of a command and all its processes."""
    start, peak = time.monotonic(), 0.0
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    while True:
        found, process.returncode, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        peak = max(peak, memory(tree(process.pid)))
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": time.monotonic() - start, "cpu": cpu, "peak_mb": peak}


def one_round(options, text):
    """What each of the three needs."""
    out, model = options.output_dir / "data", options.output_dir / "given.model"
    shutil.rmtree(out, ignore_errors=True)
    words = [COMMAND, "--input", text, "--output-dir", out, "--workers", options.workers]
    found = {LEARNED: measured(*words, "--vocab-size", options.vocab_size)}
    shutil.copyfile(out / "sentencepiece.bpe.model", model)
    shutil.rmtree(out)
    found[GIVEN] = measured(*words, "--sentencepiece-model", model)
    shutil.rmtree(out)
    found[ENCODING] = measured(sys.executable, "-c", ENCODE, text, model, options.workers)
    return found


def table(rounds):
    """The results as markdown: medians and, of ratios, the least and most."""
    rows = []
    for name in rounds[0]:
        seconds, cpu, peak = (
            [one[name][what] for one in rounds] for what in ("seconds", "cpu", "peak_mb")
        )
        ratios = [one[name]["seconds"] / one[ENCODING]["seconds"] for one in rounds]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        medians = [f"{statistics.median(values):.1f}" for values in (seconds, cpu)]
        rows.append([name, *medians, f"{max(peak):.0f}", ratio])
    header = ["", "seconds", "CPU seconds", "peak memory, MB", f"times the seconds of {ENCODING}"]
    return markdown_table(header, rows)


def main(arguments=None):
    options = parse(arguments)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    text = options.output_dir / "text.txt"
    repeat(options.input, text, options.size_mb)
    rounds = []
    for _ in range(options.rounds):
        rounds.append(one_round(options, text))
        results = {"mb": options.size_mb, "workers": options.workers, "rounds": rounds}
        (options.output_dir / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        (options.output_dir / "results.md").write_text(table(rounds))
        print(table(rounds), flush=True)
    text.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
