"""A process that uses a model folder through transformers alone, asked questions from here."""

import contextlib
import json
import os
import subprocess
import tempfile
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.export import stranger


class FolderError(ValueError):
    """The folder cannot be used through transformers; the message says why."""


class FolderProcess:
    """A context in which another process uses a folder; transformers' own cache is not touched.

    Args:
        folder (str): the folder.
        python (str): the Python whose transformers is used.
        trust (bool): whether the folder holds Python of its own.
    Raises:
        FolderError: if transformers cannot be imported there; from every method if it fails.
    """

    def __init__(self, folder: str, python: str, trust: bool):
        self._folder, self._python, self._trust = folder, python, trust
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> "FolderProcess":
        cache = self._opened.enter_context(tempfile.TemporaryDirectory())
        self._messages = self._opened.enter_context(tempfile.TemporaryFile())
        # a cache of its own: no code of an earlier folder is used, and none is left behind
        env = {
            **os.environ,
            "HF_HOME": cache,
            "HF_MODULES_CACHE": os.path.join(cache, "modules"),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        try:
            self._process = subprocess.Popen(
                [self._python, os.path.abspath(stranger.__file__), self._folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._messages, env=env,
            )  # fmt: skip
        except OSError as error:
            self._opened.close()
            raise FolderError(
                f"--python {self._python} cannot be started: {error.strerror}"
            ) from error
        #: those of transformers, torch and python there
        self.versions: dict[str, str] = {}
        try:
            self.versions = self._ask("versions")["versions"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # which ends it
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._opened.close()

    def load(self, kind: str) -> None:
        """Load the model with one of transformers' AutoModel classes, in place of an earlier one.

        Raises:
            FolderError: also if the folder lacks weights of the model.
        """
        missing = self._ask("load", kind=kind, trust=self._trust)["missing"]
        if missing:
            raise FolderError(f"{kind} finds no weights in the folder for {', '.join(missing)}")

    def encode(self, texts: list[str], pairs: list[str] | None = None) -> list[list[int]]:
        """The token ids of texts, or of pairs of them, not cut."""
        return self._ask("encode", texts=texts, pairs=pairs, trust=self._trust)["ids"]

    def logits(self, tokens: Tensor, pad: int) -> Tensor:
        """The logits of the model that was loaded; (B, L) -> those of its class, float32."""
        answer = self._ask("logits", ids=tokens.tolist(), pad=pad)
        flat = torch.frombuffer(answer["content"], dtype=torch.float32)
        return flat.view(answer["shape"])

    def _ask(self, what: str, **request: Any) -> dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps({"do": what, **request}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            answer = json.loads(line) if line else {"error": self._last_message()}
        except (BrokenPipeError, ValueError):
            answer = {"error": self._last_message()}
        if "error" in answer:
            raise FolderError(self._explained(" ".join(answer["error"].split())))
        answer["content"] = bytearray(self._process.stdout.read(answer.pop("bytes")))
        return answer

    def _last_message(self) -> str:
        self._process.wait()
        self._messages.seek(0)
        lines = self._messages.read().decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "nothing was said"
        return f"it ended with exit code {self._process.returncode}: {reason}"

    def _explained(self, error: str) -> str:
        if self.versions:
            return f"transformers {self.versions['transformers']} cannot use the folder: {error}"
        return (
            f"the folder could not be tried, because transformers cannot be imported by "
            f"{self._python}: {error}; install a version that works beside this torch, or give "
            "--python, the Python of an environment that has it and needs no fairseq"
        )
