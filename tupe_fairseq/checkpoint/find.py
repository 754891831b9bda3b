"""Finds a checkpoint and its files. Imports nothing heavy, because the types of flags use it."""

import glob
import os

from tupe_fairseq.files import by_index


def find_checkpoint(path: str) -> str:
    """The file of a checkpoint. In a folder: checkpoint_best.pt, or the model.pt of tupe-convert.

    In a task's folder of tupe-finetune, it is the file of the best run. A model.pt that does not
    exist (the default of ``from_pretrained``) stands for its folder.
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
    names = (os.path.basename(file) for file in glob.glob(glob.escape(folder) + "/*.pt"))
    files = sorted(names, key=by_index)
    advice = f"give one of its files: {', '.join(files[:20])}"
    if not files:
        advice = "give the --save-dir of a training; tupe-convert makes a checkpoint from a folder "
        advice += "for transformers"
    raise FileNotFoundError(f"{folder} has no checkpoint_best.pt and no model.pt; {advice}")
