"""Fixtures for all tests: real text, and words of several tokens; the order of files."""

import atexit
import gc
import os
import random
import shutil
import signal
import tempfile
from pathlib import Path

# On two cores, two processes with two threads each slow each other down; and bit-identical results
# need equal thread counts.
os.environ.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0")
# If torch sees a GPU, fairseq's --cpu fails when it clips gradients. To test the authors' numbers
# on a GPU: CUDA_VISIBLE_DEVICES=0 pytest tests/core/test_goldens.py
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
# transformers copies an exported folder's code to a cache, which two processes cannot share
os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()
atexit.register(shutil.rmtree, os.environ["HF_MODULES_CACHE"], ignore_errors=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it

import pytest  # noqa: E402
import torch  # noqa: E402

from helpers import own_encoding  # noqa: E402, F401, registered in all tests

#: folders with slow files come first, so that all workers end at about the same time
LONG = ("readme", "compare", "fairseq", "finetune", "export")


def pytest_configure(config):
    gc.disable()  # nothing can be freed while tests are collected; saves seconds per worker
    # keep our order of files; since 3.7, xdist puts files with many tests first
    config.option.loadscopereorder = False


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    def place(item):
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=place)


def pytest_make_parametrize_id(val):
    """Test names must not contain whole files, whose timestamps would differ between workers."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and len(val) > 16 else None


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """train.txt and valid.txt of real English that every Python ships, one paragraph per line."""
    from pydoc_data.topics import topics

    folder = tmp_path_factory.mktemp("text")
    blocks = [" ".join(b.split()) for t in topics.values() for b in t.split("\n\n")]
    # prose of bounded length; by words, because one long line would not fit the limit of tokens
    prose = [" ".join(b.split()[:25]) for b in blocks if b.endswith(".") and b.count(" ") > 8]
    lines = list(dict.fromkeys(prose))
    assert len(lines) > 800
    (folder / "valid.txt").write_text("\n".join(lines[:50]) + "\n")
    (folder / "train.txt").write_text("\n".join(lines[50:750]) + "\n")
    return folder


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory):
    """A folder like those of tupe-prepare-pretrain; no test may change it."""
    from helpers.glue_files import write_pretrain_dir

    return write_pretrain_dir(tmp_path_factory.mktemp("vocabulary") / "data")


@pytest.fixture(scope="session")
def subwords(tmp_path_factory):
    """A data folder of words with several subword tokens each, and its SentencePiece model."""
    from helpers.glue_data import write_bin

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
    (folder / "dict.txt").write_text("".join(f"{x} {n}\n" for n, x in enumerate(tokens, 1)))
    for split, part in (("train", lines[:200]), ("valid", lines[200:])):
        rows = []
        for number, line in enumerate(part):
            rows.append([n + 1 if n > 2 else 3 for n in model.encode(line)] + [2])
            rows += [[2]] * (number % 4 == 3)  # an empty line: the end of a document
        write_bin(folder / split, rows)
    return folder
