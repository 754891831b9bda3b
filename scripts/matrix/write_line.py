"""Trains every model on this line, and saves what it computes and how its training goes on.

    python write_line.py FOLDER MODEL...

FOLDER/MODEL/ holds the checkpoint, what tupe-convert makes of it, and the numbers.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np  # noqa: E402
from loading import CHECKPOINT, by_fairseq, continued, convert_into  # noqa: E402
from trained_models import is_of_tupe, training  # noqa: E402

from helpers.running import run  # noqa: E402


def main() -> None:
    folder = Path(sys.argv[1])
    for model in sys.argv[2:]:
        here = folder / model
        run(*training(model, here))
        np.savez(here / "outputs.npz", **by_fairseq(here, CHECKPOINT, model))
        convert_into(here / CHECKPOINT, model, here / "converted")
        if is_of_tupe(model):
            on = continued(here / CHECKPOINT, model, here / "continued")
            np.savez(here / "continued.npz", **on)
        print(f"{folder.name}: {model} written", flush=True)


if __name__ == "__main__":
    main()
