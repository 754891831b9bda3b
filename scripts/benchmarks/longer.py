"""Sequences longer than trained: the loss at each length, without and after a short training there.

    python scripts/benchmarks/longer.py data-bin valid.txt --output-dir longer   # an hour or two
    python scripts/benchmarks/longer.py data-bin valid.txt --output-dir longer --seeds 1,2,3

Trains each of --schemes with samples of --length tokens and makes it longer with tupe-extend, a
table of positions by every method; trains each of these for a tenth of the updates with the longest
samples; and measures all with tupe-score --lengths: OUT/results.md, results.json and
longer_than_trained.png.  DATA_BIN is a folder of tupe-prepare-pretrain, the text not of its train
split.  What is finished is kept, so that the same command goes on, and seeds and schemes can be
added.  One core is used (OMP_NUM_THREADS=1); losses do not depend on what else the machine does.

The defaults are the trainings of examples/positions, long enough that learned positions, too, leave
the plateau on which a model knows only how frequent the pieces are: there no position matters.
"""

import argparse
import json
import multiprocessing
import os
import platform
import signal
import sys
from pathlib import Path

import torch
from fairseq_cli.train import cli_main as fairseq_train

from tupe_fairseq.checkpoint.allowed_options import read_pretrained
from tupe_fairseq.cli import extend, score
from tupe_fairseq.cli.printed_commands import masked_lm_training
from tupe_fairseq.compare.run import processor
from tupe_fairseq.compare.schemes import parse_scheme
from tupe_fairseq.figures import canvas
from tupe_fairseq.files import markdown_table, read_json, write_json
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.runs.tables import write_tables

SCHEMES = "learned; tupe; tupe --rel-pos; none --rel-pos; alibi; rope"
# of the longer training, in shares of the first one
_UPDATES, _LR = 0.1, 0.5


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("data", type=Path, metavar="DATA_BIN", help="with a train split")
    add("text", type=Path, help="what is scored, as text")
    add("--output-dir", type=Path, default=Path("longer-benchmark"), help="default: %(default)s")
    add("--schemes", default=SCHEMES, help="default: %(default)s")
    add("--model", default="", help="flags that change the model; default: tupe_roberta_tiny's")
    add("--seeds", default="1", help="of the trainings; default %(default)s")
    add("--length", type=int, default=128, help="tokens of a sample; default %(default)s")
    add("--lengths", default="128,256,512,1024", help="measured; default %(default)s")
    add("--updates", type=int, default=6000, help="of the first training; default %(default)s")
    add("--batch-tokens", type=int, default=2048, help="of a batch; default %(default)s")
    add("--lr", type=float, default=1e-3, help="peak, halved for the longer training; default "
        "%(default)s")  # fmt: skip
    options = parser.parse_args(arguments)
    options.lengths = sorted(map(int, options.lengths.split(",")))
    options.seeds = list(map(int, options.seeds.split(",")))
    options.schemes = [parse_scheme(text) for text in options.schemes.split(";")]
    if options.lengths[-1] <= options.length:
        parser.error(f"--lengths must reach beyond --length ({options.length})")
    return options


def call(program, words, log: Path) -> None:
    """Calls a command's function in a child: importing torch and fairseq again takes seconds."""
    words = [str(word) for word in words]

    def run():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.argv = words
        program()

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    try:
        child.join()
    finally:
        child.terminate()
    if child.exitcode:
        raise SystemExit(
            f"{log.read_text()[-3000:]}\n{words[0]} ended with {child.exitcode}; see {log}"
        )


def train(options, model, length, updates, lr, seed, folder: Path) -> Path:
    """A training with its whole schedule; its last checkpoint, which is made only once."""
    last, done = folder / "checkpoint_last.pt", folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = masked_lm_training(
            str(options.data),
            model,
            length=length,
            updates=updates,
            warmup=updates // 10,
            lr=str(lr),
        )
        more = [
            "--batch-size", max(1, options.batch_tokens // length), "--adam-betas", "(0.9,0.98)",
            "--dropout", 0, "--attention-dropout", 0, "--disable-validation", "--seed", seed,
            "--keep-interval-updates", 1, "--num-workers", 0, "--data-buffer-size", 0,
            "--log-format", "json", "--log-interval", 100, "--save-dir", folder,
        ]  # fmt: skip
        more += [] if torch.cuda.is_available() else ["--cpu"]
        call(fairseq_train, [*words, *more], folder / "train.log")
        done.touch()
    return last


def measured(options, checkpoint: Path, lengths, out: Path) -> dict:
    """The content of tupe-score's results.json."""
    if not (out / "results.json").exists():
        out.mkdir(parents=True, exist_ok=True)
        words = ["tupe-score", checkpoint, "--data", options.data, "--input", options.text]
        words += ["--lengths", ",".join(map(str, lengths)), "--results", out]
        call(score.main, words, out / "score.log")
    return json.loads((out / "results.json").read_text())


def one(options, scheme, seed):
    """All measurements of a scheme and a seed."""
    folder = options.output_dir / f"{scheme.folder}-seed{seed}"
    flags = ["--arch", "tupe_roberta_tiny", *options.model.split(), *scheme.words]
    flags += ["--max-positions", options.length]
    last = train(
        options, list(map(str, flags)), options.length, options.updates, options.lr, seed,
        folder / "trained",
    )  # fmt: skip
    for method in extend.METHODS if CATALOGUE[scheme.name].TABLE else (None,):
        longer = folder / (method or "longer")
        if not (longer / "model.pt").exists():
            words = ["tupe-extend", last, "--data", options.data, "--max-positions",
                     options.lengths[-1], "--output-dir", longer]  # fmt: skip
            longer.mkdir(parents=True, exist_ok=True)
            call(extend.main, words + (["--method", method] if method else []), longer / "log")
        start = longer / "model.pt"
        after = train(
            options, [*read_pretrained(str(start)).flags, "--finetune-from-model", str(start)],
            options.lengths[-1], round(_UPDATES * options.updates), _LR * options.lr, seed,
            longer / "trained",
        )  # fmt: skip
        for updates, path in ((0, start), (round(_UPDATES * options.updates), after)):
            found = measured(options, path, options.lengths, longer / f"scores-{updates}")
            yield {
                "scheme": scheme.label, "seed": seed, "method": method, "updates": updates,
                "lengths": found["lengths"],
            }  # fmt: skip


def spread(values) -> str:
    """One value as it is; of several seeds the mean, least and most."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.3f}"
    return f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})"


def grouped(rows):
    """Rows of one scheme, method and number of further updates: those of its seeds."""
    found = {}
    for row in rows:
        found.setdefault((row["scheme"], row["method"], row["updates"]), []).append(row)
    return found


def table(rows) -> str:
    lengths = [one["length"] for one in rows[0]["lengths"]]
    body = []
    for (scheme, method, updates), found in grouped(rows).items():
        losses = [spread([row["lengths"][n]["loss"] for row in found]) for n in range(len(lengths))]
        body.append([f"`{scheme}`", method or "-", f"{updates:,}", *losses])
    header = ["scheme", "`--method`", "updates at the longest", *map(str, lengths)]
    return markdown_table(header, body)


def draw(rows, path: Path, trained: int) -> None:
    """Loss by length above, by position in the longest sample below; not trained on, and after."""
    figure = canvas.new_figure(12, 8.5)
    panels = figure.subplots(2, 2, sharey="row")
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    dashes = {None: "-", "interpolate": "-", "tile": "--", "zero": ":"}
    for (scheme, method, updates), found in grouped(rows).items():
        column = int(updates > 0)
        style = {
            "color": canvas.COLOURS[schemes.index(scheme) % len(canvas.COLOURS)],
            "linestyle": dashes[method], "marker": ".", "linewidth": 1.4,
            "label": f"{scheme}, {method}" if method else scheme,
        }  # fmt: skip
        sizes = [one["length"] for one in found[0]["lengths"]]
        panels[0, column].plot(sizes, mean(found, lambda row: [
            one["loss"] for one in row["lengths"]]), **style)  # fmt: skip
        bins = found[0]["lengths"][-1]["by_position"]
        panels[1, column].plot(
            [(one["from"] + one["to"]) / 2 for one in bins],
            mean(found, lambda row: [b["loss"] for b in row["lengths"][-1]["by_position"]]),
            **style,
        )
        panels[0, column].set_xscale("log", base=2)
        panels[0, column].set_xticks(sizes, [f"{size:,}" for size in sizes])
        panels[0, column].minorticks_off()
    further = max(row["updates"] for row in rows)
    for column, words in enumerate(("as extended", f"after {further:,} updates at {sizes[-1]:,}")):
        panels[0, column].set_title(f"trained at {trained}, {words}")
        panels[0, column].set_xlabel("tokens of a sample")
        panels[1, column].set_xlabel(f"position in samples of {sizes[-1]:,} (middle of a bin)")
    for row in panels:
        row[0].set_ylabel("loss of a masked piece, natural logarithm")
    for panel in panels.flat:
        panel.grid(alpha=0.25)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=4, frameon=False)
    canvas.save_png(figure, str(path), dpi=110)


def mean(rows, values):
    """The mean over seeds of a list of values, which a bin without pieces leaves out."""
    lists = zip(*(values(row) for row in rows))
    return [sum(one) / len(one) if None not in one else float("nan") for one in lists]


def main(arguments=None):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no child is left behind
    settings = {
        key: str(value) for key, value in vars(options).items()
        if key not in ("output_dir", "schemes", "seeds")
    }  # fmt: skip
    options.output_dir.mkdir(parents=True, exist_ok=True)
    path = options.output_dir / "settings.json"
    if path.exists() and read_json(str(path)) != settings:
        raise SystemExit(f"longer.py: error: {path} has other settings; give another --output-dir")
    write_json(str(path), settings)
    rows = []
    for seed in options.seeds:
        for scheme in options.schemes:
            for row in one(options, scheme, seed):
                rows.append(row)
                losses = " ".join(f"{x['length']}: {x['loss']:.3f}" for x in row["lengths"])
                print(f"{scheme.label}, seed {seed}, {row['method'] or 'no table'}, "
                      f"{row['updates']} updates: {losses}", flush=True)  # fmt: skip
    machine = f"{processor()}; Python {platform.python_version()}, torch {torch.__version__}"
    write_tables(
        str(options.output_dir), {"machine": machine, "settings": settings, "rows": rows},
        f"{table(rows)}\n{machine}\n",
    )  # fmt: skip
    draw(rows, options.output_dir / "longer_than_trained.png", options.length)
    return 0


if __name__ == "__main__":
    sys.exit(main())
