"""What torch's ONNX exporter does at its first call only, done once before forks of the process."""

import onnxscript  # noqa: F401  an old Python has none, and an old torch no such exporter
import torch

_SIZES = ({0: torch.export.Dim.DYNAMIC},)
_LAYER = torch.nn.Linear(2, 2)
torch.onnx.export(
    _LAYER, (torch.zeros(3, 2),), dynamo=True, dynamic_shapes=_SIZES, verbose=False
)  # fmt: skip
