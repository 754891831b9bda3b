"""The authors' code as one more competitor, behind a pipe."""

import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("authors_worker.py")
MODEL_FILE = Path("fairseq", "models", "bert", "model.py")


class AuthorsCode:
    """Their model in another process; calling it makes one training step and returns its seconds.

    Args:
        checkout (Path): a checkout of their repository.
    Raises:
        RuntimeError: if their code does not start; with the end of its output.
    """

    def __init__(self, checkout: Path, batch: int, seq_len: int, threads: int, device: str):
        words = [sys.executable, WORKER, checkout.resolve(), batch, seq_len, threads, device]
        self._process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read("ready")

    def __call__(self) -> float:
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _read(self, expected: str = "") -> str:
        line = self._process.stdout.readline().strip()
        while expected and line != expected and self._process.poll() is None:
            line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError("the authors' code stopped; its output is above")
        return line
