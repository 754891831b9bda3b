"""How long tupe-prepare-pretrain takes: against another checkout of it, and against SentencePiece.

    python scripts/benchmarks/prepare.py --input text.xz --output-dir OUT --reference-repo CHECKOUT
    python scripts/benchmarks/prepare.py --input text.xz --output-dir OUT --vocabulary given

Each round runs, one after another: the whole command of this checkout and of the other one, the
same with a given SentencePiece model instead of learning one, and SentencePiece's own encoding of
the text, read in blocks of lines, by as many processes.  The text is --input, repeated with the
number of the copy added to each line, up to --size-mb.  Besides seconds there is the CPU time of
all processes, which depends less on what else the machine does, and the peak memory of the
processes, sampled from /proc (Linux).  What both checkouts write is compared byte for byte.
Writes results.json and results.md after every round.
"""

import argparse
import filecmp
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tupe_fairseq.data.text_files import open_text

HERE = Path(__file__).resolve().parents[2]
OURS, THEIRS, ENCODING = "this checkout", "the other checkout", "SentencePiece alone"
# the text in blocks of lines, by as many processes; nothing is done with the ids
_ENCODE = """
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

_COMMAND = """
import sys
sys.argv[0] = "tupe-prepare-pretrain"
from tupe_fairseq.{} import main
main()
"""


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--input", type=Path, required=True, metavar="FILE", help="text to repeat")
    add("--output-dir", type=Path, required=True, metavar="OUT", help="results and scratch data")
    add("--reference-repo", type=Path, metavar="CHECKOUT", help="of another version")
    add("--size-mb", type=float, default=500, help="of the text; default %(default)s")
    add("--rounds", type=int, default=5, help="default %(default)s")
    add("--workers", type=int, default=2, help="default %(default)s")
    add("--vocab-size", type=int, default=32768, help="default %(default)s")
    add(
        "--vocabulary",
        choices=["both", "learned", "given"],
        default="both",
        help="which runs; default %(default)s",
    )
    add("--sentencepiece-model", type=Path, metavar="FILE", help="the given one; default: learned")
    add("--flags", default="", help="further flags of the command, such as --split-sentences")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.workers < 1 or not options.size_mb > 0:
        parser.error("--rounds, --workers and --size-mb must be positive")
    if options.reference_repo and not (options.reference_repo / "tupe_fairseq").is_dir():
        parser.error(f"--reference-repo {options.reference_repo} is no checkout of tupe_fairseq")
    for name in ("output_dir", "sentencepiece_model"):
        if getattr(options, name) is not None:
            setattr(options, name, getattr(options, name).resolve())
    return options


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


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


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


def measured(command, repo):
    """Seconds, CPU seconds and peak memory of a command and all its processes."""
    environment = {**os.environ, "PYTHONPATH": str(repo)}
    start = time.monotonic()
    # with -m, Python looks for the package in the current folder before PYTHONPATH
    process = subprocess.Popen(
        list(map(str, command)), env=environment, cwd=str(repo), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    peak = 0.0
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        peak = max(peak, memory(tree(process.pid))[0])
        time.sleep(0.2)
    seconds = time.monotonic() - start
    process.returncode = status
    if status:
        raise SystemExit(f"{command} failed:\n{process.stderr.read().decode()}")
    process.stderr.close()
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "peak_mb": peak}


def commands(options, text, model):
    """What is measured: the kind of run, the checkout's name, its folder and the command."""
    repos = {OURS: HERE}
    if options.reference_repo:
        repos[THEIRS] = options.reference_repo.resolve()
    kinds = ["learned", "given"] if options.vocabulary == "both" else [options.vocabulary]
    for kind in kinds:
        vocabulary = ["--vocab-size", options.vocab_size]
        if kind == "given":
            vocabulary = ["--sentencepiece-model", model]
        for name, repo in repos.items():
            words = [sys.executable, "-c", _COMMAND.format("cli.main")]
            if not (repo / "tupe_fairseq" / "cli").is_dir():
                words = [sys.executable, "-c", _COMMAND.format("commands.prepare_pretrain")]
            words += ["--input", text, "--output-dir", folder_of(options, kind, name)]
            words += ["--workers", options.workers, *vocabulary, *options.flags.split()]
            yield kind, name, repo, words
    if "given" in kinds:
        words = [sys.executable, "-c", _ENCODE, text, model, options.workers]
        yield "given", ENCODING, HERE, words


def folder_of(options, kind, name):
    return options.output_dir / f"{kind}-{name.split()[1]}"


def learned_model(options, text):
    """The model to give: that of a run which is not measured."""
    if options.sentencepiece_model:
        return options.sentencepiece_model
    folder = options.output_dir / "first"
    words = [sys.executable, "-c", _COMMAND.format("cli.main"), "--input", text]
    words += ["--output-dir", folder, "--vocab-size", options.vocab_size]
    measured([*words, "--workers", options.workers, *options.flags.split()], HERE)
    model = options.output_dir / "given.model"
    shutil.copyfile(folder / "sentencepiece.bpe.model", model)
    shutil.rmtree(folder)
    return model


def differing(one, other):
    """Names of files that are not the same in both folders; steps.json has times of the input."""
    names = {path.name for path in (*one.iterdir(), *other.iterdir())} - {"steps.json"}
    _, different, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(different + missing)


def ratios(runs, kind, above, below, what):
    pairs = zip(runs[kind][above], runs[kind][below])
    return spread([a[what] / b[what] for a, b in pairs])


def table(results):
    """The results as markdown."""
    runs = results["runs"]
    lines = ["| vocabulary | | seconds | CPU seconds | peak memory, MB |"]
    lines += ["| --- | --- | ---: | ---: | ---: |"]
    for kind, ways in runs.items():
        for name, found in ways.items():
            values = [spread([one[what] for one in found]) for what in ("seconds", "cpu")]
            medians = " | ".join(f"{value['median']:.1f}" for value in values)
            peak = max(one["peak_mb"] for one in found)
            lines.append(f"| {kind} | {name} | {medians} | {peak:.0f} |")
    lines += ["", "| vocabulary | this checkout against | ratio of seconds | of CPU seconds |"]
    lines += ["| --- | --- | ---: | ---: |"]
    for kind, ways in runs.items():
        for name in ways:
            if name != OURS:
                both = (ratios(runs, kind, OURS, name, what) for what in ("seconds", "cpu"))
                cells = " | ".join(
                    f"{one['median']:.2f} ({one['least']:.2f} to {one['most']:.2f})" for one in both
                )
                lines.append(f"| {kind} | {name} | {cells} |")
    return "\n".join(lines) + "\n"


def main(arguments=None):
    options = parse(arguments)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    text = options.output_dir / "text.txt"
    repeat(options.input, text, options.size_mb)
    model = None if options.vocabulary == "learned" else learned_model(options, text)
    runs = {}
    results = {"mb": options.size_mb, "workers": options.workers, "runs": runs, "differing": []}
    for _ in range(options.rounds):
        found, folders = [], {}
        for kind, name, repo, words in commands(options, text, model):
            if name != ENCODING:
                folders.setdefault(kind, []).append(folder_of(options, kind, name))
                shutil.rmtree(folders[kind][-1], ignore_errors=True)
            found.append((kind, name, measured(words, repo)))
        for kind, name, one in found:  # whole rounds only
            runs.setdefault(kind, {}).setdefault(name, []).append(one)
        for pair in folders.values():
            results["differing"] += differing(*pair) if len(pair) == 2 else []
            for folder in pair:
                shutil.rmtree(folder)
        (options.output_dir / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        (options.output_dir / "results.md").write_text(table(results))
        print(table(results), flush=True)
    text.unlink()
    if results["differing"]:
        raise SystemExit(f"the checkouts wrote different files: {results['differing']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
