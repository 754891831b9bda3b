"""Calling fairseq-preprocess, and counting that nothing was lost on the way."""

import os
import shutil
import struct
import subprocess
import sys
from typing import Dict, Tuple

_MAGIC = b"MMIDIDX\x00\x00"
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 4, 7: 8, 8: 2}


def binarize(
    dictionary: str, texts: Dict[str, str], folder: str, expected: Dict[str, int], workers: int = 1
) -> None:
    """Write SPLIT.bin and SPLIT.idx for each split, and dict.txt, with fairseq-preprocess.

    Args:
        dictionary (str): the dict.txt to use.
        texts (dict): split (train, valid, valid1, test, ...) to a file of pieces, a line each.
        folder (str): where the data goes; files of the same names are replaced.
        expected (dict): split to its number of lines.
        workers (int): processes of fairseq-preprocess.
    Raises:
        ValueError: if fairseq-preprocess fails; the message ends with its last line.
        ValueError: if the data has not as many sentences as expected (fairseq loses what a worker
            of its failed to write, without a word), or is cut short.
    """
    partial = folder.rstrip("/") + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--only-source"]
    command += ["--srcdict", dictionary, "--destdir", partial, "--workers", str(workers)]
    for kind in ("train", "valid", "test"):
        # fairseq numbers the further ones: valid, valid1, ...
        names = sorted(split for split in texts if split.rstrip("0123456789") == kind)
        if names:
            command += [f"--{kind}pref", ",".join(texts[name] for name in names)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if process.returncode:
        lines = process.stdout.strip().splitlines() or ["no message"]
        raise ValueError(f"fairseq-preprocess failed: {lines[-1]}")
    for split, sentences in expected.items():
        found, _ = count(os.path.join(partial, split))
        if found != sentences:
            raise ValueError(
                f"fairseq-preprocess wrote {found} sentences of {split} and was given {sentences}; "
                "is the disk full?"
            )
    os.makedirs(folder, exist_ok=True)
    for name in sorted(os.listdir(partial)):
        if name != "preprocess.log":
            os.replace(os.path.join(partial, name), os.path.join(folder, name))
    shutil.rmtree(partial)


def count(prefix: str) -> Tuple[int, int]:
    """Sentences and tokens (with the </s> of each) of PREFIX.idx and PREFIX.bin.

    Raises:
        OSError: if one of the two cannot be read.
        ValueError: if it is not fairseq's mmap format, or one of the two is cut short.
    """
    with open(prefix + ".idx", "rb") as file:
        header = file.read(26)
        if len(header) < 26 or not header.startswith(_MAGIC) or header[17] not in _ITEM_BYTES:
            raise ValueError(f"{prefix}.idx is not in fairseq's mmap format, or cut short")
        (sentences,) = struct.unpack("<Q", header[18:26])
    item_bytes = _ITEM_BYTES[header[17]]
    tokens, rest = divmod(os.path.getsize(prefix + ".bin"), item_bytes)
    # int32 length and int64 offset of each sentence follow the header
    if rest or os.path.getsize(prefix + ".idx") != 26 + 12 * sentences:
        raise ValueError(f"{prefix}.idx or .bin is cut short")
    return sentences, tokens
