"""ONNX files compute what the folder's model does, as onnxruntime runs them."""

import importlib.util

import numpy as np
import pytest
import torch

from helpers.folders import CASES, SENTENCE_HEAD, SIZES, TOKEN_HEAD, batch, write_folder
from tupe_fairseq.export import onnx_files
from tupe_fairseq.missing_package import MissingPackage

MISSING = [name for name in onnx_files.NEEDED if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
# an encoding that is traced as a classifier: one file instead of two
HEADS = {"tupe": SENTENCE_HEAD, "learned": TOKEN_HEAD}
ENCODINGS = [
    "tupe", "tupe rel_pos", "learned", "sinusoidal rel_pos", "none rel_pos untie_cls",
    "transformer-xl", "enformer", "rope", "alibi untie_cls", "shaw", "disentangled rel_pos",
]  # fmt: skip


@needs_onnx
@pytest.mark.parametrize("case", ENCODINGS)
def test_every_position_encoding(case, tmp_path):
    import onnxruntime

    head = HEADS.get(case, SENTENCE_HEAD)
    model = write_folder(tmp_path / "a", case, head, encoder_layers=1)
    ((name, difference),) = onnx_files.export_onnx(str(tmp_path / "a")).items()
    assert name == "onnx/model.onnx" and difference <= 1e-5
    # and what the checkpoint computes
    ids, is_real = batch(14, 9, 2)
    session = onnxruntime.InferenceSession(tmp_path / "a" / name)
    inputs = {"input_ids": ids.numpy(), "attention_mask": is_real.long().numpy()}
    logits, hidden = session.run(["logits", "last_hidden_state"], inputs)
    expected = model(ids, features_only=True, classification_head_name=head.name)[0].detach()
    if head.of_tokens:
        logits, expected = logits[is_real], expected[is_real]
    np.testing.assert_allclose(logits, expected, atol=1e-5, rtol=0)
    assert hidden.shape == (3, 14, SIZES["encoder_embed_dim"])


@needs_onnx
def test_a_masked_lm_has_two_files(tmp_path):
    write_folder(tmp_path / "a", encoder_layers=1)
    differences = onnx_files.export_onnx(str(tmp_path / "a"))
    assert list(differences) == ["onnx/model.onnx", "onnx/model_masked_lm.onnx"]
    assert max(differences.values()) <= 1e-5
    for name in differences:  # no traces of the machine
        assert b".py" not in (tmp_path / "a" / name).read_bytes()


@needs_onnx
@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_a_file_that_differs_is_refused(difference, tmp_path, monkeypatch):
    write_folder(tmp_path / "a", encoder_layers=1)
    monkeypatch.setattr(onnx_files, "write_file", lambda *_: None)
    monkeypatch.setattr(onnx_files, "largest_difference", lambda *_: difference)
    with pytest.raises(ValueError, match="onnx/model.onnx differs from the model by"):
        onnx_files.export_onnx(str(tmp_path / "a"))


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(onnx_files, "missing", lambda *_: ["onnx", "onnxscript"])
    with pytest.raises(MissingPackage, match=r"onnx, onnxscript are not installed.*\[onnx\]"):
        onnx_files.check_installed()


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
