"""Small files of a task of one's own, and tupe-prepare-task in this process."""

import csv
import json

from helpers.glue_files import sentence
from helpers.running import call_program


def write_csv(path, rows):
    """The first row has the names of the columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_jsonl(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def tagged(number):
    """The words of a sentence, and BIO tags: the subject is an entity of two words."""
    words = sentence(number).split()
    return words, ["B-who", "I-who", *["O"] * (len(words) - 2)]


def write_conll(path, sentences):
    """Words and tags, as :func:`tagged`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = ("".join(f"{word}\t{tag}\n" for word, tag in zip(*pair)) for pair in sentences)
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def prepare_task(kind, train, pretrain_dir, out, *flags):
    """tupe-prepare-task in this process, which saves starting fairseq.

    Returns:
        tuple: the exit code and what was printed.
    """
    command = ["--kind", kind, "--train", train, "--pretrain-dir", pretrain_dir]
    return call_program("prepare-task", [*command, "--output-dir", out, "--workers", 1, *flags])
