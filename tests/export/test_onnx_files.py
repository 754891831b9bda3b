"""ONNX files compute what the folder's model does, as onnxruntime runs them."""

import importlib.util

import numpy as np
import pytest
import torch

from helpers.folders import SENTENCE_HEAD, SIZES, TOKEN_HEAD, batch, write_folder
from tupe_fairseq.export import onnx_files

MISSING = [name for name in onnx_files.NEEDED if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
# every encoding once; the file of a classifier has logits and hidden states
HEADS = {
    "tupe rel_pos": None,
    "learned": TOKEN_HEAD,
    "sinusoidal rel_pos": SENTENCE_HEAD,
    "none rel_pos untie_cls": SENTENCE_HEAD,
    "transformer-xl": SENTENCE_HEAD,
    "enformer": SENTENCE_HEAD,
    "rope": SENTENCE_HEAD,
    "alibi untie_cls": SENTENCE_HEAD,
    "shaw": SENTENCE_HEAD,
    "disentangled rel_pos": SENTENCE_HEAD,
}


@needs_onnx
@pytest.mark.parametrize("case", HEADS)
def test_every_position_encoding(case, tmp_path):
    import onnxruntime

    head = HEADS[case]
    model = write_folder(tmp_path / "a", case, head, encoder_layers=1)
    differences = onnx_files.export_onnx(str(tmp_path / "a"))
    assert max(differences.values()) <= 1e-5
    ids, is_real = batch(14, 9, 2)
    outputs = {}
    for name in differences:
        assert b".py" not in (tmp_path / "a" / name).read_bytes()  # no stack traces
        session = onnxruntime.InferenceSession(tmp_path / "a" / name)
        names = [output.name for output in session.get_outputs()]
        inputs = {"input_ids": ids.numpy(), "attention_mask": is_real.long().numpy()}
        outputs.update(zip(names, session.run(names, inputs), strict=True))
    assert outputs["last_hidden_state"].shape == (3, 14, SIZES["encoder_embed_dim"])
    if head is None:
        assert list(differences) == ["onnx/model.onnx", "onnx/model_masked_lm.onnx"]
        expected = model(ids)[0].detach()
    else:
        assert list(differences) == ["onnx/model.onnx"]
        expected = model(ids, features_only=True, classification_head_name=head.name)[0].detach()
    logits = torch.from_numpy(outputs["logits"])
    if expected.dim() == 3:
        logits, expected = logits[is_real], expected[is_real]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@needs_onnx
@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_a_file_that_differs_is_refused(difference, tmp_path, monkeypatch):
    write_folder(tmp_path / "a", encoder_layers=1)
    monkeypatch.setattr(onnx_files, "write_file", lambda *_: None)
    monkeypatch.setattr(onnx_files, "largest_difference", lambda *_: difference)
    with pytest.raises(ValueError, match="onnx/model.onnx differs from the model by"):
        onnx_files.export_onnx(str(tmp_path / "a"))


def test_the_largest_difference_is_nan_if_one_is(monkeypatch):
    class Session:
        def run(self, names, inputs):
            return [np.full((*inputs["input_ids"].shape, 3), np.nan, dtype=np.float32)]

    config = type("C", (), {"max_position_embeddings": 9, "model_type": "tupe", "vocab_size": 30,
                            "pad_token_id": 1, "eos_token_id": 2})  # fmt: skip

    class Model(torch.nn.Module):
        def forward(self, input_ids, attention_mask, output_hidden_states):
            return {"logits": torch.zeros(*input_ids.shape, 3)}

    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(runtime, "InferenceSession", lambda *_, **__: Session())
    model = Model()
    model.config = config
    difference = onnx_files.largest_difference(onnx_files.Outputs(model, ["logits"]), "")
    assert difference != difference
