"""Small data folders of a user's own tasks, multilabel and tagging, in the format of the others."""

import random

from helpers.glue_data import EOS, FIRST, write_bin
from tupe_fairseq.data.task import MULTILABEL, TAGGING, Task, label_symbol
from tupe_fairseq.files import write_json

WORDS = [f"w{n}" for n in range(20)]
PAD, UNKNOWN = 1, 3
TOPICS = Task(
    "topics", MULTILABEL, ("art", "good food", "100 %"), 1, ("train", "valid", "test"),
    ("micro_f1", "macro_f1"), "micro_f1",
)  # fmt: skip
NAMES = Task(
    "names", TAGGING, ("O", "B-a b", "I-a b", "B-c", "I-c"), 1, ("train", "valid", "test"),
    ("entity_f1", "accuracy"), "entity_f1",
)  # fmt: skip
ROWS = {"train": 53, "valid": 23, "test": 9}


def topics(rows=ROWS, longest=12):
    """Rows of :data:`TOPICS`: a text has the label whose number is that of a word below 3."""
    draw, splits = random.Random(1), {}
    for split, number in rows.items():
        texts = [draw.choices(range(20), k=draw.randint(1, longest)) for _ in range(number)]
        splits[split] = [(text, sorted({word for word in text if word < 3})) for text in texts]
    return splits


def names(rows=ROWS, longest=8):
    """Rows of :data:`NAMES`: each word is a list of pieces, its tag told by the first of them."""
    draw, splits = random.Random(2), {}
    for split, number in rows.items():
        splits[split] = []
        for _ in range(number):
            count = draw.randint(1, longest)
            words = [draw.choices(range(20), k=draw.randint(1, 3)) for _ in range(count)]
            splits[split].append((words, [_tag(words, place) for place in range(count)]))
    return splits


def _tag(words, place):
    """An entity of type 0 or 1 goes on while its words begin with 0, 1, ... or 5, 6, ..."""
    kind = words[place][0] // 5
    if kind > 1:
        return 0
    return 1 + 2 * kind + (place > 0 and words[place - 1][0] // 5 == kind)


def write_topics(folder, splits, max_positions=32):
    """The data folder of :data:`TOPICS`; a split called test has no labels."""
    for split, rows in splits.items():
        write_bin(folder / "input0" / split, [_ids(text) for text, _ in rows])
        if not split.startswith("test"):
            write_bin(folder / "label" / split, [_ids(labels) for _, labels in rows])
    return _finish(folder, TOPICS, splits, max_positions)


def write_names(folder, splits, max_positions=32):
    """The data folder of :data:`NAMES`; in a split called test words have no tags."""
    for split, rows in splits.items():
        pieces = [[piece for word in words for piece in word] for words, _ in rows]
        write_bin(folder / "input0" / split, [_ids(row) for row in pieces])
        labels = []
        for words, tags in rows:
            row = []
            for word, tag in zip(words, tags):
                first = UNKNOWN if split.startswith("test") else FIRST + tag
                row += [first, *[PAD] * (len(word) - 1)]
            labels.append([*row, EOS])
        write_bin(folder / "label" / split, labels)
    return _finish(folder, NAMES, splits, max_positions)


def _ids(numbers):
    return [*(FIRST + number for number in numbers), EOS]


def _finish(folder, task, splits, max_positions):
    (folder / "input0" / "dict.txt").write_text("".join(f"{word} 1\n" for word in WORDS))
    lines = "".join(f"{label_symbol(label)} 1\n" for label in task.labels)
    (folder / "label" / "dict.txt").write_text(lines)
    report = {
        "task": task.name, "description": task.to_record(), "max_positions": max_positions,
        "splits": {split: {"rows": len(rows)} for split, rows in splits.items()},
    }  # fmt: skip
    write_json(str(folder / "report.json"), report)
    return folder
