"""Names of tensors from a checkpoint to a folder and back."""

import pytest
import torch

from helpers.crafted import E, whole_state
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.export.folder_tensors import from_folder, to_folder

RECORDS = {"encoder.vocabulary_version", E + "position_version"}


def state_with_heads():
    model = whole_state()["model"]
    for name, classes in (("a", 2), ("b", 3)):
        head = f"classification_heads.{name}."
        model[head + "dense.weight"], model[head + "dense.bias"] = torch.randn(8, 8), torch.ones(8)
        model[head + "out_proj.weight"] = torch.randn(classes, 8)
        model[head + "out_proj.bias"] = torch.randn(classes)
    return model


def same(one, other):
    assert set(one) == set(other)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("head", [None, "b"])
@pytest.mark.parametrize("tied", [True, False])
def test_there_and_back(head, tied):
    model = state_with_heads()
    if not tied:
        model["encoder.lm_head.weight"] = torch.randn_like(model["encoder.lm_head.weight"])
    tensors = to_folder(model, head, tied)
    assert ("lm_head.decoder.weight" in tensors) is not tied
    assert "tupe.encoder.layers.1.fc1.weight" in tensors
    assert tensors["tupe.embed_tokens.weight"].shape == model[E + "embed_tokens.weight"].shape
    kept = {name for name in model if not name.startswith("classification_heads.")} - RECORDS
    kept |= {name for name in model if name.startswith(f"classification_heads.{head}.")}
    same(from_folder(tensors, head, tied), {name: model[name] for name in kept})


def test_float32_that_shares_no_memory():
    model = {name: tensor.half() for name, tensor in whole_state()["model"].items()}
    model[E + "layernorm_embedding.bias"] = model[E + "layernorm_embedding.weight"]
    model[E + "layers.0.fc1.weight"] = model[E + "layers.0.fc1.weight"].t().contiguous().t()
    tensors = to_folder(model)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    assert len({tensor.data_ptr() for tensor in tensors.values()}) == len(tensors)


def test_a_bare_model_comes_back_without_its_lm_head():
    model = whole_state()["model"]
    bare = {
        name[len("tupe.") :]: tensor
        for name, tensor in to_folder(model).items()
        if name.startswith("tupe.")
    }
    back = from_folder(bare)
    assert "encoder.lm_head.bias" not in back
    encoder = {name for name in model if name.startswith(E)} - RECORDS
    same({name: back[name] for name in encoder}, {name: model[name] for name in encoder})


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"encoder.lm_head.weight": torch.ones(12, 8)}, "lm_head.weight is not the word embedding"),
        ({"encoder.lm_head.weight": None}, "no tensor encoder.lm_head.weight"),
        ({E + "embed_tokens.weight": None}, "no tensor encoder.sentence_encoder.embed_tokens"),
        ({"decoder.weight": torch.ones(1)}, "tensor decoder.weight has no place"),
    ],
)
def test_what_is_refused(change, reason):
    model = {**whole_state()["model"], **change}
    model = {name: tensor for name, tensor in model.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=reason):
        to_folder(model)


def test_a_head_that_is_missing():
    with pytest.raises(CheckpointError, match="no classification head 'c'"):
        to_folder(state_with_heads(), "c")


def test_a_tensor_of_another_model():
    tensors = {**to_folder(whole_state()["model"]), "pooler.weight": torch.ones(1)}
    with pytest.raises(CheckpointError, match="pooler.weight has no place in a checkpoint"):
        from_folder(tensors)
