"""How long commands take to refuse or help, and what importing the package costs.

    python scripts/benchmarks/start_up.py --output-dir start-up-benchmark          # two minutes

A command is asked for --help, and given a flag that is none, and a file that is not there.  Each
is a process of its own; all take turns in five rounds, after one that is not counted, beside
``python -c pass``.  Seconds that a processor worked are given, too: they hardly depend on what else
runs.  The script fails if a command takes longer than half a second, of this Python's own start
apart, or if the package adds more than 0.2 s to the import of torch.  Writes results.json and
results.md.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tupe_fairseq.commands.start import NEEDS
from tupe_fairseq.compare.run import processor
from tupe_fairseq.files.results import write_results

BARE, TORCH = "python -c pass", "import torch"
#: what is imported, beside torch alone
IMPORTS = {
    TORCH: TORCH,
    "import tupe_fairseq": "import tupe_fairseq",
    "TupeEncoder": "from tupe_fairseq import TupeEncoder",
    "TupeRobertaModel": "from tupe_fairseq import TupeRobertaModel",
}
#: the words of a call that names a file that is not there; the other files are not looked at before
ABSENT = {
    "compare": "absent --output-dir out --schemes tupe --updates 1",
    "convert": "--checkpoint absent --output-dir out",
    "encode": "absent absent.csv --output-file out.npy",
    "export": "absent --output-dir out",
    "extend": "absent --max-positions 64 --output-dir out",
    "finetune": "--data absent --checkpoint absent --output-dir out",
    "plot": "absent --output-dir out",
    "predict": "absent absent.csv",
    "prepare_glue": "--glue-dir absent --tasks ALL --pretrain-dir absent --output-dir out",
    "prepare_pretrain": "--input absent --output-dir out",
    "prepare_task": "--kind tagging --train absent --pretrain-dir absent --output-dir out",
    "score": "absent",
}
LIMIT_COMMAND, LIMIT_PACKAGE = 0.5, 0.2


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output-dir", type=Path, required=True, metavar="OUT", help="results")
    add("--rounds", type=int, default=5, help="default %(default)s")
    add("--only", metavar="LIST", help=f"commands, of {','.join(NEEDS)}; default: all")
    add("--no-imports", action="store_true", help="the commands alone")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",") if options.only else list(NEEDS)
    unknown = sorted(set(options.only) - set(NEEDS))
    if unknown or options.rounds < 1:
        parser.error(f"--only: no command {unknown[0]}" if unknown else "--rounds must be above 0")
    return options


def calls(commands, imports=IMPORTS):
    """What is measured -> its program, the words after it, and the exit code that it must have."""
    found = {BARE: ("pass", [], 0)}
    for name in commands:
        program = f"from tupe_fairseq.commands.start import {name}; {name}()"
        title = f"tupe-{name.replace('_', '-')}"
        found[f"{title} --help"] = program, ["--help"], 0
        found[f"{title} --wrong-flag"] = program, ["--wrong-flag"], 2
        if name in ABSENT:  # tupe-options takes no files
            found[f"{title} absent"] = program, ABSENT[name].split(), 2
    found.update((title, (program, [], 0)) for title, program in imports.items())
    return found


def measured(program, words, code):
    """Seconds on the clock and of a processor, and the lines that it printed."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    clock = time.perf_counter() - begin
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != code:
        raise SystemExit(f"{program}: exit code {process.returncode}\n{process.stdout.decode()}")
    busy = now.ru_utime - spent.ru_utime + now.ru_stime - spent.ru_stime
    return clock, busy, process.stdout.count(b"\n")


def measure(wanted, rounds):
    """{what: {"seconds", "busy": of each round, "lines"}}"""
    found = {title: {"seconds": [], "busy": [], "lines": 0} for title in wanted}
    for number in range(rounds + 1):
        for title, call in wanted.items():
            clock, busy, lines = measured(*call)
            found[title]["lines"] = lines
            if number:  # before, files were read from the disk
                found[title]["seconds"].append(clock)
                found[title]["busy"].append(busy)
    return found


def table(found):
    rows = ["| | median s | least | most | processor s | lines |", "|---|---|---|---|---|---|"]
    for title, one in found.items():
        seconds = one["seconds"]
        cells = [statistics.median(seconds), min(seconds), max(seconds)]
        cells.append(statistics.median(one["busy"]))
        numbers = " | ".join(f"{cell:.3f}" for cell in cells)
        rows.append(f"| {title} | {numbers} | {one['lines']} |")
    return "\n".join(rows) + "\n"


def excesses(found):
    """What is above its limit, by the medians."""
    median = {title: statistics.median(one["seconds"]) for title, one in found.items()}
    for title in median:
        if title.startswith("tupe-") and median[title] - median[BARE] > LIMIT_COMMAND:
            yield f"{title}: {median[title] - median[BARE]:.2f} s beyond {BARE}"
    for title, base in (("import tupe_fairseq", BARE), ("TupeEncoder", TORCH)):
        if title in median and median[title] - median[base] > LIMIT_PACKAGE:
            yield f"{title}: {median[title] - median[base]:.2f} s beyond {base}"


def main(arguments=None):
    options = parse(arguments)
    wanted = calls(options.only, {} if options.no_imports else IMPORTS)
    found = measure(wanted, options.rounds)
    facts = {
        "processor": processor(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "rounds": options.rounds,
    }
    options.output_dir.mkdir(parents=True, exist_ok=True)
    write_results(str(options.output_dir), {**facts, "found": found}, table(found))
    print(facts, table(found), sep="\n")
    above = list(excesses(found))
    print("\n".join(above) or "all within their limits")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
