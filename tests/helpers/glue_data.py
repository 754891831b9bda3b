"""The one writer of GLUE data folders and of checkpoints to fine-tune, without fairseq."""

import argparse
import hashlib
import random
import struct

import numpy as np
import torch

from tupe_fairseq.checkpoint.checkpoint import symbols_of, vocabulary_version
from tupe_fairseq.data.glue import GLUE_TASKS
from tupe_fairseq.files import write_json

FIRST, EOS = 4, 2  # ids: of the first word or label of a dict.txt, and of </s>
DICTIONARY = [f"word{number} 1" for number in range(7)]
ROWS = {"train": 10, "valid": 4, "test": 3}
MODEL = {
    "arch": "tupe_roberta_base", "encoder_layers": 3, "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24, "encoder_attention_heads": 2, "activation_fn": "gelu",
    "pooler_activation_fn": "tanh", "max_positions": 48, "encoder_normalize_before": False,
    "untie_weights_roberta": False, "rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 20,
    "tie_cls": False,
}  # fmt: skip


def write_bin(prefix, rows):
    """Lists of token ids in fairseq's mmap format."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    sizes = np.array([len(row) for row in rows], dtype="<i4")
    offsets = 4 * (np.cumsum(sizes) - sizes).astype("<i8")
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 4, len(rows))
    prefix.with_suffix(".idx").write_bytes(header + sizes.tobytes() + offsets.tobytes())
    prefix.with_suffix(".bin").write_bytes(np.array(sum(rows, []), dtype="<i4").tobytes())


def write_task(folder, name, splits, lines=DICTIONARY, max_positions=MODEL["max_positions"]):
    """OUT/TASK as tupe-prepare-glue leaves it.

    ``splits`` have rows: one or two texts, lists of words' numbers; and the number of the class, or
    the score as a share of the highest. ``lines`` are those of dict.txt.
    """
    task = GLUE_TASKS[name]
    (folder / "label").mkdir(parents=True)
    if task.labels:
        (folder / "label" / "dict.txt").write_text("".join(f"{x} 1\n" for x in task.labels))
    content = "".join(line + "\n" for line in lines)
    for split, rows in splits.items():
        for number in range(len(task.texts)):
            side = folder / f"input{number}"
            texts = [texts[number] for texts, _ in rows]
            write_bin(side / split, [[FIRST + word for word in text] + [EOS] for text in texts])
            (side / "dict.txt").write_text(content)
        labels = [label for _, label in rows]
        if split.startswith("test"):
            indices = "".join(f"{10 * row}\n" for row in range(len(rows)))
            (folder / f"{split}.index").write_text(indices)
        elif task.is_regression:
            text = "".join(f"{label}\n" for label in labels)
            (folder / "label" / f"{split}.label").write_text(text)
        else:
            write_bin(folder / "label" / split, [[FIRST + label, EOS] for label in labels])
    report = {
        "task": name, "description": task.task.to_record(), "max_positions": max_positions,
        "splits": {split: {"rows": len(rows)} for split, rows in splits.items()},
        "vocabulary": hashlib.sha256(content.encode()).hexdigest(),
    }  # fmt: skip
    write_json(str(folder / "report.json"), report)
    return folder


def write_data(folder, name, labels=None, rows=None, **options):
    """Short sentences of three kinds; ``labels`` are classes or scores from 0 to 5 by split."""
    task, splits = GLUE_TASKS[name], {}
    for split in task.files:
        number = (rows or ROWS)[split.rstrip("1")]
        found = (labels or {}).get(split) or [i % task.num_classes for i in range(number)]
        splits[split] = [
            ([[0, 1 + row % 3]] * len(task.texts), label / 5 if task.is_regression else label)
            for row, label in enumerate(found)
        ]
    return write_task(folder, name, splits, **options)


def random_rows(name, words, rows, longest=12):
    """Rows of :func:`write_task`: words at random, the label by the first of them."""
    task, draw, splits = GLUE_TASKS[name], random.Random(name), {}
    for split, number in rows.items():
        splits[split] = []
        for _ in range(number):
            texts = [draw.choices(range(words), k=draw.randint(1, longest)) for _ in task.texts]
            first = texts[0][0]
            label = first % len(task.labels) if task.labels else first / words + draw.random()
            splits[split].append((texts, label))
    return splits


def write_checkpoint(path, options=MODEL, words=DICTIONARY):
    """The parts of a checkpoint that are read before training."""
    symbols = symbols_of(words)
    tensors = {
        "encoder.sentence_encoder.embed_tokens.weight": torch.zeros(len(symbols), 16),
        "encoder.vocabulary_version": vocabulary_version(symbols),
    }
    for layer in range(options["encoder_layers"]):
        name = f"encoder.sentence_encoder.layers.{layer}.fc1.weight"
        tensors[name] = torch.zeros(options["encoder_ffn_embed_dim"], 16)
    torch.save({"cfg": {"model": argparse.Namespace(**options)}, "model": tensors}, path)
    return path
