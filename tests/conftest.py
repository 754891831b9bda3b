"""What every test shares: where the material lies, and running the real commands."""

import os
import subprocess
import sys
from pathlib import Path

# Two threads of two processes on two cores spin against each other; and bit-identical results
# need equal thread counts.
os.environ.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0")
ENV = dict(os.environ)

import pytest  # noqa: E402
import torch  # noqa: E402
from forked import run_forked  # noqa: E402

REPO = Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"
BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def shared():
    """The folder of goldens and corpora beside the project."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is absent: it holds the goldens and corpora of this test")
    return SHARED


def run(*command, cwd=None, check=True, env=None):
    """Run a console script of this environment (or python) and return the finished process."""
    command = [str(word) for word in command]
    is_script = command[0].startswith(("fairseq-", "tupe-"))
    if (BIN / command[0]).exists():
        command[0] = str(BIN / command[0])
    if is_script and env is None:
        process = run_forked(command, cwd)
    else:
        process = subprocess.run(
            command, cwd=cwd, env={**ENV, **(env or {})}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=600,
        )  # fmt: skip
    if check and process.returncode:
        raise AssertionError(f"exit code {process.returncode}: {command}\n{process.stdout[-6000:]}")
    return process


@pytest.fixture(scope="session", name="run")
def run_fixture():
    return run


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """train.txt and valid.txt of real English that every Python ships, a paragraph a line."""
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
def data(text, run, tmp_path_factory):
    """A data folder made by SentencePiece and fairseq-preprocess, with the model beside it."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("data")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text / "train.txt"), model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=300, user_defined_symbols=["<mask>"], minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    for split in ("train", "valid"):
        lines = (text / f"{split}.txt").read_text().splitlines()
        encoded = [" ".join(pieces.encode(line, out_type=str)) for line in lines]
        (folder / f"{split}.spm").write_text("\n".join(encoded) + "\n")
    run(
        "fairseq-preprocess", "--only-source", "--trainpref", folder / "train.spm",
        "--validpref", folder / "valid.spm", "--destdir", folder / "bin", "--workers", "1",
    )  # fmt: skip
    (folder / "sentencepiece.bpe.model").rename(folder / "bin" / "sentencepiece.bpe.model")
    return folder / "bin"
