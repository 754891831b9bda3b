"""Data folders of one's own tasks, of every kind, as tupe-prepare-task leaves them."""

import random

from helpers.glue_data import DICTIONARY, EOS, FIRST, write_bin
from tupe_fairseq.data.task import Task, label_symbol
from tupe_fairseq.files import file_sha256, write_json

PAD = 1
ROWS = {"train": 48, "valid": 16, "test": 9}
METRICS = {
    "classification": (("accuracy", "macro_f1"), "accuracy"),
    "regression": (("pearson", "spearman"), "pearson_and_spearman"),
    "multilabel": (("micro_f1", "macro_f1"), "micro_f1"),
    "tagging": (("accuracy",), "accuracy"),
}
LABELS = {
    "classification": ("<pad>", "so so", "very | good"),
    "regression": (),
    "multilabel": ("a, b", "c d"),
    "tagging": ("NOUN", "VERB", "%"),
}


def own_task(kind, name="mine", texts=1, labels=None, **options):
    """A description; a regression's scale is from -1 to 7."""
    metrics, selection = METRICS[kind]
    return Task(
        name, kind, LABELS[kind] if labels is None else labels, texts, ("train", "valid", "test"),
        metrics, selection, scale=(-1.0, 7.0) if kind == "regression" else None, **options,
    )  # fmt: skip


def write_own(folder, task, splits, has_test_labels=True):
    """OUT/TASK of a task.

    A row is a tuple: the one or two texts, lists of words' numbers; and the number of the class,
    the score on its own scale, or the numbers of the labels. Of tagging the words, lists of
    tokens' numbers, and the numbers of their tags.
    """
    (folder / "label").mkdir(parents=True)
    if task.labels:
        lines = "".join(f"{label_symbol(label)} 1\n" for label in task.labels)
        (folder / "label" / "dict.txt").write_text(lines)
    for split, rows in splits.items():
        texts = [[sum(texts, [])] if task.kind == "tagging" else texts for texts, _ in rows]
        for number in range(task.texts):
            side = folder / f"input{number}"
            sequences = [[FIRST + word for word in text[number]] + [EOS] for text in texts]
            write_bin(side / split, sequences)
            (side / "dict.txt").write_text("".join(line + "\n" for line in DICTIONARY))
        if split != "test" or has_test_labels:
            _write_labels(folder / "label", task, split, rows)
    report = {
        "task": task.name, "description": task.to_record(), "max_positions": 48,
        "splits": {split: {"rows": len(rows)} for split, rows in splits.items()},
        "vocabulary": file_sha256(str(folder / "input0" / "dict.txt")),
    }  # fmt: skip
    write_json(str(folder / "report.json"), report)
    return folder


def _write_labels(folder, task, split, rows):
    if task.is_regression:
        low, high = task.scale
        lines = [f"{(score - low) / (high - low)!r}\n" for _, score in rows]
        (folder / f"{split}.label").write_text("".join(lines))
        return
    ids = []
    for texts, answer in rows:
        if task.kind == "tagging":
            of_words = [[FIRST + tag] + [PAD] * (len(w) - 1) for w, tag in zip(texts, answer)]
            ids.append(sum(of_words, []) + [EOS])
        else:
            labels = answer if task.kind == "multilabel" else [answer]
            ids.append([*(FIRST + one for one in labels), EOS])
    write_bin(folder / split, ids)


def own_rows(task, rows=ROWS, seed=1, longest=6):
    """Rows of :func:`write_own`: words at random, the answer by some of them."""
    draw, words = random.Random(seed), range(len(DICTIONARY))
    splits = {}
    for split, number in rows.items():
        splits[split] = []
        for _ in range(number):
            texts = [draw.choices(words, k=draw.randint(2, longest)) for _ in range(task.texts)]
            first = texts[0][0]
            if task.kind == "tagging":
                texts = [[first, *draw.choices(words, k=draw.randint(0, 1))] for first in texts[0]]
                # the word's own in most cases
                own = [word[0] + (draw.random() < 0.2) for word in texts]
                answer = [one % len(task.labels) for one in own]
            elif task.kind == "multilabel":
                answer = [label for label in range(len(task.labels)) if label in texts[0]]
            elif task.is_regression:
                answer = -1 + first + draw.random()
            else:
                answer = first % len(task.labels)
            splits[split].append((texts, answer))
    return splits
