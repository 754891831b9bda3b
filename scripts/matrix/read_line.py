"""Loads what other lines have written, trains it on, and compares with what they computed.

    python read_line.py OUT READER WRITER,WRITER... MODEL...

Each line of OUT/READER.jsonl says how one model of one other line did in one way.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Callable, Dict, Iterator, Tuple

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import fairseq  # noqa: E402
import numpy as np  # noqa: E402
from loading import CHECKPOINT, by_fairseq, by_tupe, continued, convert_into  # noqa: E402
from outputs import difference  # noqa: E402
from trained_models import is_of_tupe  # noqa: E402

IS_OFFICIAL = fairseq.__version__.startswith("0.12.2")
Numbers = Dict[str, np.ndarray]
# what fairseq 0.12.2 says of a task's options that the main branch has added
_REFUSED = re.compile(r"Key '\w+' not in '(MaskedLM|GlueTask)Config'")


def main() -> None:
    out, reader, writers, *models = sys.argv[1:]
    with open(Path(out) / f"{reader}.jsonl", "w") as file:
        for writer in writers.split(","):
            for model in models:
                scratch = Path(out) / reader / "of-others" / writer / model
                for way, expected, find in _ways(Path(out) / writer / model, model, scratch):
                    record = {"writer": writer, "model": model, "way": way}
                    record.update(_tried(expected, find, way == "fairseq" and IS_OFFICIAL))
                    print(json.dumps(record), file=file, flush=True)
                shutil.rmtree(scratch)
            print(f"{reader}: {writer}'s read", flush=True)


def _ways(
    written: Path, model: str, scratch: Path
) -> Iterator[Tuple[str, Path, Callable[[], Numbers]]]:
    """The name of each way, the file with what is expected, and what finds the same here."""
    scratch.mkdir(parents=True, exist_ok=True)
    expected, file = written / "outputs.npz", written / CHECKPOINT

    def converted_here() -> Numbers:
        convert_into(file, model, scratch / "converted")
        return by_fairseq(scratch / "converted", "model.pt", model)

    before = written / "converted"
    yield "converted before", expected, lambda: by_fairseq(before, "model.pt", model)
    yield "converted here", expected, converted_here
    if is_of_tupe(model):  # the lines of fairseq do not load each other's stock models
        yield "fairseq", expected, lambda: by_fairseq(written, CHECKPOINT, model)
        yield "tupe_fairseq", expected, lambda: by_tupe(written, CHECKPOINT, model)
        on = scratch / "continued"
        yield "continued", written / "continued.npz", lambda: continued(file, model, on)


def _tried(expected: Path, find: Callable[[], Numbers], may_refuse: bool) -> Dict[str, object]:
    try:
        return {"difference": difference(find(), dict(np.load(expected)))}
    except (Exception, SystemExit) as error:  # fairseq's own are of many kinds
        refused = _REFUSED.search(str(error))
        if refused and may_refuse:
            return {"refused": refused.group()}
        return {"problem": f"{type(error).__name__}: {str(error)[-400:]}"}


if __name__ == "__main__":
    main()
