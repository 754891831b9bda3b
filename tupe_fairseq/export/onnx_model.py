"""Writes the models of a folder for onnxruntime, in a process that knows transformers alone."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, NamedTuple, Tuple

from tupe_fairseq.export import onnx_writer

#: the largest difference of a number from the folder's own model, at real tokens
LIMIT = 1e-4


class OnnxError(ValueError):
    """The files cannot be written, or compute something else; the message says why."""


class OnnxFile(NamedTuple):
    """A file that was written and compared.

    Args:
        outputs (tuple of str): the names of its outputs; its inputs are ``input_ids`` and
            ``attention_mask``, int64 (B, L).
        difference (float): the largest difference of an output from the folder's own model.
        seconds (float): what writing took; the trace, which serves all files, counts for the first.
        size (int): in bytes.
    """

    outputs: Tuple[str, ...]
    difference: float
    seconds: float
    size: int


def export_onnx(folder: str, python: str = sys.executable) -> Dict[str, OnnxFile]:
    """Write ``onnx/`` in a model folder, compared with the folder's model on padded batches.

    ``onnx/model.onnx`` has what embedding servers ask for, ``last_hidden_state``, and for a model
    with a task head its logits, too.  The masked-LM logits of a pre-trained model are in
    ``onnx/model_masked_lm.onnx``: most who ask for hidden states do not want the work of them.

    Args:
        folder (str): a finished folder.
        python (str): the Python whose transformers, torch, onnxscript and onnxruntime are used.
    Returns:
        dict: file within the folder -> what was written.
    Raises:
        OnnxError: if a package is missing there or too old, the folder holds no model that this
            can write, or a number differs by more than :data:`LIMIT`.
        OSError: if there is no config.json, ``onnx/`` is there already or cannot be written.
    """
    target = os.path.join(folder, "onnx")
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise FileNotFoundError(f"{folder} holds no config.json; it is no model folder")
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already; remove it first")
    partial = os.path.join(target, "partial")
    try:
        os.makedirs(partial)
        written = _ask_writer(folder, partial, python)
        for name, file in written.items():
            # not "above": NaN is not, either
            if not file.difference <= LIMIT:
                raise OnnxError(
                    f"onnx/{name} differs from the model in {folder} by {file.difference:.1e}; "
                    f"{LIMIT:.0e} is allowed"
                )
        for name in os.listdir(partial):
            os.replace(os.path.join(partial, name), os.path.join(target, name))
        os.rmdir(partial)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return {f"onnx/{name}": file for name, file in written.items()}


def _ask_writer(folder: str, partial: str, python: str) -> Dict[str, OnnxFile]:
    with tempfile.TemporaryDirectory() as cache:
        # a cache of its own: no code of an earlier folder is used, and none is left behind
        env = {
            **os.environ,
            "HF_HOME": cache,
            "HF_MODULES_CACHE": os.path.join(cache, "modules"),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        }
        words = [python, os.path.abspath(onnx_writer.__file__), folder, partial]
        try:
            process = subprocess.run(words, capture_output=True, env=env)
        except OSError as error:
            raise OnnxError(f"{python} cannot be started: {error.strerror}") from error
    answer: Dict[str, Any]
    try:
        answer = json.loads(process.stdout)
    except ValueError:
        lines = process.stderr.decode(errors="replace").strip().splitlines() or ["nothing was said"]
        answer = {"error": f"it ended with exit code {process.returncode}: {lines[-1]}"}
    if "missing" in answer:
        raise OnnxError(
            f"{', '.join(answer['missing'])}: not installed; ONNX files need them: "
            "pip install 'tupe_fairseq[hf,onnx]' (in a clone: pip install '.[hf,onnx]')"
        )
    if "error" in answer:
        raise OnnxError(f"onnx/ cannot be written: {' '.join(answer['error'].split())[:1000]}")
    return {
        name: OnnxFile(**{**file, "outputs": tuple(file["outputs"])})
        for name, file in answer["files"].items()
    }
