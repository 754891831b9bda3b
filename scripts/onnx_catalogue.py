"""Exports a small model of every position encoding for onnxruntime, compared with itself.

    python scripts/onnx_catalogue.py           # ten minutes on two cores
    python scripts/onnx_catalogue.py tupe rope # these alone

Every second one is pre-LN, every third a classifier, and some have an LM head of its own.  Ends
with exit code 1 if one cannot be exported or differs.  Needs what tests/export needs.
"""

import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.folders import write_folder  # noqa: E402
from helpers.position_cases import ALL_OF_ENCODER  # noqa: E402
from tupe_fairseq import TupeConfig  # noqa: E402
from tupe_fairseq.export.onnx_model import OnnxError, export_onnx  # noqa: E402

SMALL = {
    "embed_dim": 24, "num_heads": 3, "num_layers": 2, "ffn_embed_dim": 32, "max_positions": 40,
}  # fmt: skip


def main():
    failed = False
    for number, case in enumerate(ALL_OF_ENCODER):
        if sys.argv[1:] and case.name not in sys.argv[1:]:
            continue
        config = TupeConfig(
            **SMALL, position_encoding=case.name, normalize_before=number % 2 == 1, **case.options
        )
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(1)
            write_folder(
                Path(folder), config, num_labels=3 if number % 3 == 2 else None, tied=number % 4 < 3
            )
            try:
                for name, file in export_onnx(folder).items():
                    outputs = ", ".join(file.outputs)
                    print(f"{case.id:42} {name:28} {outputs:28} within {file.difference:.1e}")
            except OnnxError as error:
                failed = True
                print(f"{case.id:42} {error}")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
