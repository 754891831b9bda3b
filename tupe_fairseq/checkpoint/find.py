"""Finds a checkpoint and its files; imports nothing, for the types of flags."""

import glob
import os


def find_checkpoint(path: str) -> str:
    """A checkpoint's file: of a folder checkpoint_best.pt, or the model.pt of tupe-convert.

    Of a task's folder of tupe-finetune it is that of the best run. A model.pt that is not there,
    the default of ``from_pretrained``, is looked for as of a folder.
    """
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        folder = path
    elif name.endswith((".safetensors", ".json")):
        raise FileNotFoundError(
            f"{path} is a file for transformers; give its folder, {folder or '.'}, to tupe-convert"
        )
    elif os.path.lexists(path) or name != "model.pt":
        return path
    for name in ("checkpoint_best.pt", "model.pt", "best/checkpoint_best.pt"):
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    files = sorted(os.path.basename(file) for file in glob.glob(glob.escape(folder) + "/*.pt"))
    advice = f"give one of its files: {', '.join(files[:20])}"
    if not files:
        advice = "give the --save-dir of a training; of a folder for transformers tupe-convert "
        advice += "makes a checkpoint"
    raise FileNotFoundError(f"{folder} has no checkpoint_best.pt and no model.pt; {advice}")


def folders_of(checkpoint: str, data: str | None = None) -> list[str]:
    """The folders in which a model's files are looked for: that of its data, and its own."""
    if not os.path.exists(checkpoint):
        raise FileNotFoundError(f"{checkpoint} does not exist; give a checkpoint")
    own = os.path.dirname(checkpoint) or "."
    return [own] if data is None else [data, own]
