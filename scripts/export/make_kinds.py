"""Makes small models of every kind, their exported folders, and what the hub interface gives.

    python scripts/export/make_kinds.py OUT --text TRAIN --valid VALID [--glue DIR] [--goldens DIR]

Run it where fairseq and this package are installed.  TRAIN and VALID are English text (plain or
.xz), GLUE the official files, GOLDENS the checkpoints of the TUPE authors' code.  For each kind it
writes OUT/models/KIND, OUT/folders/KIND (by tupe-export) and OUT/references/KIND.pt; what is there
already is kept.  ``use_folder.py`` compares the last two.
"""

import argparse
import itertools
import lzma
import shutil
from pathlib import Path

from authors_kinds import convert_authors
from kinds import AS_ROBERTA, CONVERTED, FINE_TUNED, PRETRAINED, QUICK
from reference import write_reference
from running import run
from train_kinds import CHECKPOINT, fine_tune, pretrain

HEAD = "sentence_classification_head"
IDS_ALSO = ("tupe-r", "cola", "authors-tupe-r-long")  # one of each vocabulary


def main():
    args = get_parser().parse_args()
    out = args.out
    for part in ("models", "folders", "references"):
        (out / part).mkdir(parents=True, exist_ok=True)
    kinds = args.kinds or (QUICK if args.quick else every_kind(args))
    write_text(out, args)
    write_data(out, args, kinds)
    for name in kinds:
        make(name, out, args)


def every_kind(args):
    """The names of those that the given files allow."""
    kinds = [*PRETRAINED, *AS_ROBERTA]
    for given, more, flag in (
        (args.glue, FINE_TUNED, "--glue"),
        (args.goldens, CONVERTED, "--goldens"),
    ):
        if given:
            kinds += more
        else:
            print(f"not made without {flag}: {', '.join(more)}")
    return kinds


def write_text(out, args):
    """OUT/train.txt: every so many lines of the text; OUT/valid.txt as it is."""
    if (out / "valid.txt").exists():
        return
    lines = list(read_lines(args.text))
    step = max(1, len(lines) // (1_500 if args.quick else 5_000))
    (out / "train.txt").write_text("\n".join(lines[::step]) + "\n")
    (out / "valid.txt").write_text("\n".join(read_lines(args.valid)) + "\n")


def read_lines(path):
    """The lines of a text that are not blank."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield line.strip()


def write_data(out, args, kinds):
    """OUT/data-bin, and OUT/glue-bin if a kind needs it."""
    run(
        "tupe-prepare-pretrain", "--input", out / "train.txt", "--valid-input", out / "valid.txt",
        "--test-fraction", 0, "--vocab-size", 800, "--tokens-per-sample", 128, "--workers", 1,
        "--output-dir", out / "data-bin",
    )  # fmt: skip
    tasks = [FINE_TUNED[name] for name in kinds if name in FINE_TUNED]
    if tasks:
        run(
            "tupe-prepare-glue", "--glue-dir", args.glue, "--tasks", ",".join(tasks),
            "--pretrain-dir", out / "data-bin", "--output-dir", out / "glue-bin",
        )  # fmt: skip


def make(name, out, args):
    """The model, the folder and the reference of a kind."""
    if name in AS_ROBERTA:
        source, flags = AS_ROBERTA[name], ["--as", "roberta"]
    else:
        source, flags = name, []
    model = out / "models" / source
    if not model.exists():
        partial = out / "models" / f"{source}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        if source in PRETRAINED:
            pretrain(source, out / "data-bin", partial)
        elif source in FINE_TUNED:
            start = out / "models" / "tupe-r" / CHECKPOINT
            if not start.exists():
                make("tupe-r", out, args)
            fine_tune(source, out / "glue-bin", start, partial)
        else:
            lines = list(itertools.islice(read_lines(out / "train.txt"), 2000))
            convert_authors(args.goldens, CONVERTED[source], lines, partial)
        partial.rename(model)
    checkpoint = "model.pt" if source in CONVERTED else CHECKPOINT
    folder = out / "folders" / name
    if not folder.exists() and not args.no_export:
        run("tupe-export", model / checkpoint, "--output-dir", folder, *flags)
    reference = out / "references" / f"{name}.pt"
    if not reference.exists():
        has_head = source in FINE_TUNED or CONVERTED.get(source, "").endswith("finetuned")
        ids_of = read_lines(args.ids_of) if args.ids_of and name in IDS_ALSO else ()
        write_reference(
            reference, model, checkpoint, sentences(source, out, args), args.sentences,
            head=HEAD if has_head else None, ids_of=itertools.islice(ids_of, 100_000),
        )  # fmt: skip


def sentences(source, out, args):
    """Real sentences, or pairs, that suit a model."""
    if source == "cola":
        return (row[3] for row in rows(args.glue / "CoLA" / "dev.tsv"))
    if source == "sts-b":
        return ((row[7], row[8]) for row in rows(args.glue / "STS-B" / "dev.tsv"))
    lines = read_lines(out / "valid.txt")
    if source in CONVERTED:  # whose longest sentence has 24 letters, or 320
        words = 3 if CONVERTED[source] != "tupe_r_long" else 50
        return (" ".join(line.split()[: 1 + number % words]) for number, line in enumerate(lines))
    return lines


def rows(path):
    """The cells of each row of an official file of GLUE."""
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def get_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--valid", type=Path, required=True)
    parser.add_argument("--glue", type=Path)
    parser.add_argument("--goldens", type=Path)
    parser.add_argument("--ids-of", type=Path, help="text whose first 100,000 lines are encoded")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--no-export", action="store_true", help="only models and references")
    return parser


if __name__ == "__main__":
    main()
