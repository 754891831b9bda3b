"""Finds a checkpoint and its files; imports nothing, for the types of flags."""

import glob
import os


def find_checkpoint(path: str) -> str:
    """A checkpoint's file: of a folder checkpoint_best.pt, or the model.pt of tupe-convert.

    A model.pt that is not there, the default of ``from_pretrained``, is looked for as of a folder.
    """
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        folder = path
    elif os.path.lexists(path) or name != "model.pt":
        return path
    for name in ("checkpoint_best.pt", "model.pt"):
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    files = sorted(os.path.basename(file) for file in glob.glob(glob.escape(folder) + "/*.pt"))
    message = f"{folder} has no checkpoint_best.pt and no model.pt; "
    if files:
        message += f"give one of its files: {', '.join(files[:20])}"
    elif os.path.exists(os.path.join(folder, "config.json")):
        message += (
            "it is for transformers, which loads it, or tupe-convert makes a checkpoint of it"
        )
    else:
        message = f"{folder} has no checkpoint (.pt); give the --save-dir of a training"
    raise FileNotFoundError(message)


def folders_of(checkpoint: str, data: str | None = None) -> list[str]:
    """The folders in which a model's files are looked for: that of its data, and its own."""
    if not os.path.exists(checkpoint):
        raise FileNotFoundError(f"{checkpoint} does not exist; give a checkpoint")
    own = os.path.dirname(checkpoint) or "."
    return [own] if data is None else [data, own]
