"""Data folders of GLUE's and users' tasks, as the commands write them, made without fairseq."""

import hashlib
import random
import struct

import numpy as np

from tupe_fairseq.files import list_files, write_json
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.labelled.task import Task, label_symbol

FIRST, EOS, PAD = 4, 2, 1  # ids: of the first word or label of a dict.txt, of </s> and <pad>
DICTIONARY = [f"word{number} 1" for number in range(7)]
ROWS = {"train": 64, "valid": 16, "test": 9}
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


def own_task(kind, name="mine", texts=1, labels=None):
    """A user's task; a regression has scores from -1 to 7."""
    metrics, selection = METRICS[kind]
    return Task(
        name, kind, LABELS[kind] if labels is None else labels, texts, tuple(ROWS), metrics,
        selection, scale=(-1.0, 7.0) if kind == "regression" else None,
    )  # fmt: skip


def write_bin(prefix, rows):
    """Lists of token ids in fairseq's mmap format."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    sizes = np.array([len(row) for row in rows], dtype="<i4")
    offsets = 4 * (np.cumsum(sizes) - sizes).astype("<i8")
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 4, len(rows))
    prefix.with_suffix(".idx").write_bytes(header + sizes.tobytes() + offsets.tobytes())
    prefix.with_suffix(".bin").write_bytes(np.array(sum(rows, []), dtype="<i4").tobytes())


def write_task(folder, task, splits, lines=DICTIONARY, max_positions=48):
    """Write OUT/TASK of a task, or of the GLUE task of that name; ``lines`` are those of dict.txt.

    A row is a tuple of texts and label. Texts are one or two lists of token numbers, or for tagging
    a list of words, each a list of token numbers. The label is the number of the class, the score,
    or the numbers of the labels or of the words' tags; None in a test set without labels.
    """
    task = GLUE_TASKS[task] if isinstance(task, str) else task
    (folder / "label").mkdir(parents=True)
    if task.labels:
        symbols = "".join(f"{label_symbol(label)} 1\n" for label in task.labels)
        (folder / "label" / "dict.txt").write_text(symbols)
    content = "".join(line + "\n" for line in lines)
    for split, rows in splits.items():
        texts = [[sum(texts, [])] if task.kind.name == "tagging" else texts for texts, _ in rows]
        for number in range(task.texts):
            side = folder / f"input{number}"
            ids = [[FIRST + word for word in text[number]] + [EOS] for text in texts]
            write_bin(side / split, ids)
            (side / "dict.txt").write_text(content)
        indices = "".join(f"{10 * row}\n" for row in range(len(rows)))
        (folder / f"{split}.index").write_text(indices)
        if all(label is not None for _, label in rows):
            _write_labels(folder / "label", task, split, rows)
    report = {
        "task": task.name, "description": task.to_record(), "max_positions": max_positions,
        "splits": {split: {"rows": len(rows)} for split, rows in splits.items()},
        "vocabulary": hashlib.sha256(content.encode()).hexdigest(), "files": list_files(folder),
    }  # fmt: skip
    write_json(str(folder / "report.json"), report)
    return folder


def _write_labels(folder, task, split, rows):
    if not task.labels:
        low, high = task.scale
        lines = [f"{(score - low) / (high - low)!r}\n" for _, score in rows]
        (folder / f"{split}.label").write_text("".join(lines))
        return
    ids = []
    for words, label in rows:
        if task.kind.name == "tagging":
            tags = [[FIRST + tag] + [PAD] * (len(w) - 1) for w, tag in zip(words, label)]
            ids.append(sum(tags, []) + [EOS])
        else:
            labels = label if task.kind.name == "multilabel" else [label]
            ids.append([*(FIRST + one for one in labels), EOS])
    write_bin(folder / split, ids)


def write_data(folder, task, labels, **options):
    """Write a folder with these labels for each split; its texts are three different sentences."""
    texts = GLUE_TASKS[task].texts if isinstance(task, str) else task.texts
    splits = {
        split: [([[0, 1 + row % 3]] * texts, label) for row, label in enumerate(of)]
        for split, of in labels.items()
    }
    return write_task(folder, task, splits, **options)


def random_rows(task, words=7, rows=ROWS, longest=12):
    """Rows for :func:`write_task`: random words; the label mostly depends on the first one."""
    task = GLUE_TASKS[task] if isinstance(task, str) else task
    draw, splits = random.Random(task.name), {}
    for split, number in rows.items():
        splits[split] = []
        for _ in range(number):
            texts = [
                draw.choices(range(words), k=draw.randint(1, longest)) for _ in range(task.texts)
            ]
            first = texts[0][0]
            if task.kind.name == "tagging":
                texts = [[word, *range(draw.randint(0, 1))] for word in texts[0]]
                label = [(word[0] + (draw.random() < 0.2)) % len(task.labels) for word in texts]
            elif task.kind.name == "multilabel":
                label = [label for label in range(len(task.labels)) if label in texts[0]]
            elif not task.labels:
                low, high = task.scale
                label = low + (high - low) * (first + draw.random()) / words
            else:
                label = first % len(task.labels)
            if task.benchmark and split.startswith("test"):
                label = None
            splits[split].append((texts, label))
    return splits
