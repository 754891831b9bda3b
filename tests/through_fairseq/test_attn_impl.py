"""The flags of speed, through fairseq's own commands."""

import subprocess

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR
from helpers.training import losses, pretrain, weights
from tupe_fairseq.attention import IMPLEMENTATIONS

# without dropout, so that all see the same numbers
FEW = ["--max-update", 6, "--dropout", 0, "--attention-dropout", 0, "--rel-pos"]


@pytest.fixture(scope="module")
def eager(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("eager")
    return losses(pretrain(data, folder, *FEW, "--attn-impl", "eager")), folder


def skip_unless_served(name):
    reason = IMPLEMENTATIONS[name].refusal(torch.zeros(1, 1, 1, 1), None, None)
    if reason is not None:
        pytest.skip(reason)


def assert_same_losses(found, expected):
    assert sorted(found) == sorted(expected)
    for update, loss in expected.items():
        # three decimals are logged; six updates at 1e-2 make little of float32's rounding
        assert found[update] == pytest.approx(loss, abs=2e-3), f"update {update}"


@pytest.mark.parametrize(
    "flags",
    [["--attn-impl", "sdpa"], ["--attn-impl", "chunked"], [], ["--unpad"]],
    ids=["sdpa", "chunked", "auto", "unpad"],
)
def test_training_with_each_implementation_learns_the_same(data, eager, tmp_path, flags):
    if "--attn-impl" in flags:
        skip_unless_served(flags[1])
    expected, _ = eager
    process = pretrain(data, tmp_path, *FEW, *flags)
    assert_same_losses(losses(process), expected)
    if not flags:
        # once for each that served, by the length of the batch
        said = "attention on cpu, torch.float32, with gradient: "
        counts = [process.stdout.count(said + name) for name in ("eager", "chunked")]
        assert max(counts) == 1


@pytest.mark.skipif(not hasattr(torch.nn.Module, "compile"), reason="needs torch 2.2")
def test_compiled_layers_learn_the_same_and_keep_their_names(data, eager, tmp_path):
    expected, folder = eager
    if subprocess.run(["g++", "--version"], stdout=subprocess.DEVNULL).returncode:
        pytest.skip("torch.compile needs a C++ compiler")
    process = pretrain(data, tmp_path, *FEW, "--compile-layers")
    assert_same_losses(losses(process), expected)
    last = "checkpoint_last.pt"
    assert list(weights(tmp_path / last)) == list(weights(folder / last))


def test_an_implementation_that_cannot_serve_is_refused(data, tmp_path):
    process = pretrain(data, tmp_path, *FEW, "--attn-impl", "triton", check=False)
    assert process.returncode != 0
    assert "--attn-impl triton does not support this" in process.stdout
    assert "use --attn-impl auto" in process.stdout


@pytest.mark.skipif(hasattr(torch.nn.Module, "compile"), reason="this torch can compile")
def test_compiling_without_a_compiling_torch_is_refused(data, tmp_path):
    process = pretrain(data, tmp_path, *FEW, "--compile-layers", check=False)
    assert process.returncode != 0
    assert "--compile-layers needs torch 2.2" in process.stdout


def test_the_implementation_can_be_chosen_on_loading(data, eager):
    _, folder = eager
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    found = {}
    for name in ("eager", "auto", "chunked"):
        hub = RobertaModel.from_pretrained(
            str(folder), "checkpoint_last.pt", str(data), user_dir=USER_DIR, bpe=None,
            attn_impl=name,
        )  # fmt: skip
        hub.eval()
        layers = hub.model.encoder.sentence_encoder.layers
        assert {layer.self_attn.attn_impl for layer in layers} == {name}
        with torch.no_grad():
            found[name] = hub.extract_features(tokens)
    for name in ("auto", "chunked"):
        torch.testing.assert_close(found[name], found["eager"], rtol=1e-5, atol=1e-5)
