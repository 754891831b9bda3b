"""An ONNX file of a classifier; those of a pre-trained model: test_onnx_model.py."""

from helpers.onnx_cases import folder, needs_onnx
from tupe_fairseq.export.onnx_model import LIMIT, export_onnx


@needs_onnx
def test_a_classifier(tmp_path, stranger):
    """Logits and hidden states in one file; the mean; positions whose functions ONNX has not."""
    fields = {"num_labels": 3, "classifier_pooling": "mean"}
    model = folder(tmp_path / "model", fields, position_encoding="enformer")
    ((name, file),) = export_onnx(model, stranger).items()
    assert name == "onnx/model.onnx" and file.outputs == ("logits", "last_hidden_state")
    assert file.difference <= LIMIT
