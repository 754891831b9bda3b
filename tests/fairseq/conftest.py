"""Data folders and trained models that several files use, each made once."""

import random

import pytest

from helpers import training
from helpers.glue_data import write_bin


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder for masked_lm, with documents."""
    return training.write_text_data(tmp_path_factory.mktemp("text") / "data")


@pytest.fixture(scope="session")
def pretrained(data, tmp_path_factory):
    """The --save-dir of a TUPE-R after 10 updates, with checkpoints after 5 and 10."""
    folder = tmp_path_factory.mktemp("pretrained")
    training.pretrain(data, folder, "--rel-pos", "--save-interval-updates", 5)
    return folder


@pytest.fixture(scope="session")
def subwords(tmp_path_factory):
    """A data folder of words with several subword tokens each, and its SentencePiece model."""
    spm = pytest.importorskip("sentencepiece")
    folder, draw = tmp_path_factory.mktemp("subwords") / "data", random.Random(2)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(150)]
    lines = [" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(250)]
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(lines))
    spm.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=50, minloglevel=2,
    )  # fmt: skip
    model = spm.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    tokens = [model.id_to_piece(n) for n in range(3, 50)]  # fairseq has the first three, too
    (folder / "dict.txt").write_text("".join(f"{token} 1\n" for token in tokens))
    for split, part in (("train", lines[:200]), ("valid", lines[200:])):
        rows = []
        for number, line in enumerate(part):
            rows.append([n + 1 if n > 2 else 3 for n in model.encode(line)] + [2])
            rows += [[2]] * (number % 4 == 3)  # an empty line: the end of a document
        write_bin(folder / split, rows)
    return folder


@pytest.fixture(scope="session")
def subwords_trained(subwords, tmp_path_factory):
    """The --save-dir of a model trained with isolated documents and whole-word masking."""
    folder = tmp_path_factory.mktemp("subwords_trained")
    flags = ["--isolate-documents", "--mask-whole-words", "--sample-break-mode", "none"]
    training.pretrain(subwords, folder, "--rel-pos", *flags, "--checkpoint-activations")
    return folder
