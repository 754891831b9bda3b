"""Takes results and checkpoints of the second study to another machine; see arena.sh.

python3 examples/results/carry.py pack FOLDER [RUN...]
python3 examples/results/carry.py unpack FOLDER
"""

import glob
import json
import os
import sys
import tarfile

import torch

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, LM_HEAD
from tupe_fairseq.files import atomic_copy, atomic_write, list_files, read_json
from tupe_fairseq.runs.process import LAST

STUDY = "examples/results/arena"
RUNS = f"{STUDY}/tupe_roberta_tiny"
FILES = ("settings.json", "results.json", "results.md")


def pack(folder: str, *runs: str) -> None:
    names = [x for x in list_files(STUDY) if x in FILES or os.path.basename(x) == "result.json"]
    with atomic_write(f"{folder}/results.tar", "wb") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name in names:
                tar.add(f"{STUDY}/{name}", name)
    count, absent = 0, []
    for run in runs or ["*"]:
        paths = glob.glob(f"{RUNS}/{run}/{LAST}")
        # the checkpoint of an interrupted run would be taken for a trained one
        paths = [path for path in paths if os.path.exists(f"{os.path.dirname(path)}/result.json")]
        absent += [run] * bool(runs and not paths)
        for path in paths:
            # in 16 bits, without the optimizer's state and a GPU's second copy of the embeddings;
            # weights_only=False is safe for this study's own files
            state = torch.load(path, map_location="cpu", weights_only=False)
            model = {k: v.half() if v.is_floating_point() else v for k, v in state["model"].items()}
            model[LM_HEAD + "weight"] = model[EMBEDDING]
            name = os.path.basename(os.path.dirname(path))
            with atomic_write(f"{folder}/{name}.pt", "wb") as file:
                torch.save({**state, "model": model, "last_optimizer_state": None}, file)
            count += 1
    print(f"packed {len(names)} files of results and {count} checkpoints")
    if absent:
        sys.exit(f"carry.py: no finished run with a checkpoint is called {', '.join(absent)}")


def unpack(folder: str) -> None:
    """Keeps existing checkpoints, and existing results with as many measurements or more."""
    with tarfile.open(f"{folder}/results.tar") as tar:
        for member in tar:
            path = f"{STUDY}/{member.name}"
            content = tar.extractfile(member).read()
            if os.path.basename(path) == "result.json" and os.path.exists(path):
                both = read_json(path), json.loads(content)
                measured = [len(result.get("measured", ())) for result in both]
                if measured[0] >= measured[1]:
                    continue
            with atomic_write(path, "wb") as file:
                file.write(content)
    for path in glob.glob(f"{glob.escape(folder)}/*.pt"):
        target = f"{RUNS}/{os.path.basename(path).removesuffix('.pt')}/{LAST}"
        if not os.path.exists(target):
            atomic_copy(path, target)


if __name__ == "__main__":
    try:
        {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        sys.exit(f"carry.py: {error}")
