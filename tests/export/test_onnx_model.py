"""ONNX files of model folders, as onnxruntime computes them."""

import json
import sys

import pytest
import torch

from helpers.onnx_cases import SMALL, VERSION, folder, needs_onnx
from helpers.position_cases import REL_POS
from tupe_fairseq.export.onnx_model import LIMIT, OnnxError, OnnxFile, export_onnx


def inputs_of(lengths):
    """A padded batch, as numpy."""
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(5, 37, is_real.shape).masked_fill(~is_real, 1)
    return {"input_ids": ids.numpy(), "attention_mask": is_real.long().numpy()}


@needs_onnx
def test_a_pretrained_model(tmp_path, stranger):
    """Its hidden states in one file, its logits in another."""
    import onnxruntime

    model = folder(tmp_path / "model", normalize_before=True, **REL_POS)
    written = export_onnx(model, stranger)
    assert {name: file.outputs for name, file in written.items()} == {
        "onnx/model.onnx": ("last_hidden_state",),
        "onnx/model_masked_lm.onnx": ("logits",),
    }
    onnx = tmp_path / "model" / "onnx"
    # weights stand in the file itself
    assert sorted(path.name for path in onnx.iterdir()) == ["model.onnx", "model_masked_lm.onnx"]
    sessions = {name: onnxruntime.InferenceSession(tmp_path / "model" / name) for name in written}
    for name, session in sessions.items():
        assert written[name].difference <= LIMIT
        assert written[name].size == (tmp_path / "model" / name).stat().st_size
        # nor stack traces, which tell where whoever exports keeps things
        assert b".py" not in (tmp_path / "model" / name).read_bytes()
        inputs = [(one.name, one.type) for one in session.get_inputs()]
        assert inputs == [("input_ids", "tensor(int64)"), ("attention_mask", "tensor(int64)")]
    hidden = sessions["onnx/model.onnx"]
    together = inputs_of([7, 24, 1])
    (states,) = hidden.run(["last_hidden_state"], together)
    assert states.shape == (3, 24, SMALL["embed_dim"])
    for row, length in enumerate([7, 24, 1]):
        one = {name: x[row : row + 1, :length] for name, x in together.items()}
        (alone,) = hidden.run(None, one)
        assert abs(alone[0] - states[row, :length]).max() < 1e-5
    with pytest.raises(FileExistsError, match="onnx is there already; remove it first"):
        export_onnx(model)


@pytest.mark.skipif(VERSION >= (2, 7), reason="for a torch that cannot export")
def test_an_old_torch_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OnnxError, match=r"needs torch 2\.7 or later, and this is 1\.13"):
        export_onnx(str(tmp_path))
    assert not (tmp_path / "onnx").exists()


def without(tmp_path, package):
    """This Python, as if a package were not installed."""
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\nimport runpy, sys\nsys.modules[{package!r}] = None\n"
        "del sys.argv[0]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    python.chmod(0o755)
    return str(python)


@pytest.mark.skipif(VERSION < (2, 7), reason="a torch that cannot export is refused first")
def test_a_missing_package_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OnnxError) as error:
        export_onnx(str(tmp_path), without(tmp_path, "onnxscript"))
    assert "onnxscript" in str(error.value)
    assert "not installed; ONNX files need them: pip install 'tupe_fairseq[hf,onnx]'" in str(
        error.value
    )
    assert not (tmp_path / "onnx").exists()


@needs_onnx
def test_a_folder_of_another_model_is_refused(tmp_path, stranger):
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(OnnxError, match="architecture BertForMaskedLM, which is not known"):
        export_onnx(str(tmp_path), stranger)
    assert not (tmp_path / "onnx").exists()


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no config.json"):
        export_onnx(str(tmp_path))


@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_numbers_that_differ_are_refused(tmp_path, monkeypatch, difference):
    def write(folder, partial, python):
        (tmp_path / "onnx" / "partial" / "model.onnx").touch()
        return {"model.onnx": OnnxFile(("last_hidden_state",), difference, 1.0, 0)}

    monkeypatch.setattr("tupe_fairseq.export.onnx_model._ask_writer", write)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OnnxError, match=r"onnx/model.onnx differs from the model in .*; 1e-04 is"):
        export_onnx(str(tmp_path))
    assert not (tmp_path / "onnx").exists()


def test_a_python_that_is_none(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OnnxError, match="no/python cannot be started: No such file"):
        export_onnx(str(tmp_path), "no/python")
    assert not (tmp_path / "onnx").exists()
