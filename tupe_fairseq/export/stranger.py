"""Uses a model folder as a stranger would: in a process of its own, with transformers alone.

Run as a file: ``python stranger.py FOLDER``.  Every line that it reads is a request in JSON, every
answer a line in JSON; that to ``logits`` is followed by as many bytes as it says.
"""

import json
import os
import sys


def main() -> None:
    """Answer the requests ``load``, ``encode`` and ``logits`` until there are no more."""
    folder = sys.argv[1]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    sys.path.pop(0)  # this file's folder
    # as if they were not installed; fairseq brings torchaudio, which often does not fit the torch
    for name in ("fairseq", "tupe_fairseq", "torchaudio"):
        sys.modules[name] = None  # type: ignore[assignment]
    handler = None
    for line in sys.stdin.buffer:
        content = b""
        try:
            if handler is None:
                handler = _Handler(folder)
            answer, content = handler.answer(json.loads(line))
        except Exception as error:  # whatever the folder or a library leads to
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps({**answer, "bytes": len(content)}).encode() + b"\n" + content)
        answers.flush()


class _Handler:
    def __init__(self, folder: str):
        import torch
        import transformers

        self._torch, self._transformers, self._folder = torch, transformers, folder
        transformers.logging.set_verbosity_error()
        self._model = self._tokenizer = None

    def answer(self, request):
        """A dict, and bytes that follow it."""
        return getattr(self, "_" + request.pop("do"))(**request)

    def _versions(self):
        modules = {"transformers": self._transformers, "torch": self._torch}
        found = {name: module.__version__.split("+")[0] for name, module in modules.items()}
        return {"versions": {**found, "python": "{}.{}.{}".format(*sys.version_info)}}, b""

    def _load(self, kind, trust):
        self._model = None  # two need not be in memory at once
        auto_class = getattr(self._transformers, kind)
        options = {"trust_remote_code": trust, "local_files_only": True}
        self._model, info = auto_class.from_pretrained(
            self._folder, output_loading_info=True, **options
        )
        self._model.float().eval()
        return {"missing": sorted(map(str, info["missing_keys"]))}, b""

    def _encode(self, texts, pairs, trust):
        if self._tokenizer is None:
            self._tokenizer = self._transformers.AutoTokenizer.from_pretrained(
                self._folder, trust_remote_code=trust, local_files_only=True
            )
        given = (texts,) if pairs is None else (texts, pairs)
        return {"ids": self._tokenizer(*given, truncation=False, verbose=False)["input_ids"]}, b""

    def _logits(self, ids, pad):
        tokens = self._torch.tensor(ids)
        with self._torch.no_grad():
            found = self._model(input_ids=tokens, attention_mask=tokens.ne(pad).long()).logits
        found = found.float().contiguous()
        return {"shape": list(found.shape)}, found.numpy().tobytes()


if __name__ == "__main__":
    main()
