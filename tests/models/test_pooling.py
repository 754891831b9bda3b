"""--pooling: what classification heads get, by hand from the features, with padding."""

import argparse

import pytest
import torch
from fairseq.models.roberta.hub_interface import RobertaHubInterface

from helpers.crafted import LINES
from helpers.exporting import build
from tupe_fairseq.plugin.model.mean_pooling_head import head_outputs

HEAD = "sentence_classification_head"
LENGTHS = [9, 2, 6]
PAD = 1


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "dict.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def model_of(dictionary, **options):
    """In float64, with random weights; as a checkpoint is read, so that heads may be added."""
    torch.manual_seed(1)
    _, model = build(dictionary, {HEAD: 3}, load_checkpoint_heads=True, **options)
    return model.double().eval()


def batch():
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    tokens = torch.randint(4, 11, real.shape, generator=torch.Generator().manual_seed(2))
    tokens[:, 0] = 0
    return tokens.masked_fill(~real, PAD)


def by_hand(model, tokens, pooling):
    """The head's formula on the features of each row alone, without padding."""
    head, found = model.classification_heads[HEAD], []
    for row, length in zip(tokens, LENGTHS):
        features = model(row[None, :length], features_only=True)[0][0]
        x = sum(features) / length if pooling == "mean" else features[0]
        x = torch.tanh(head.dense.weight @ x + head.dense.bias)
        found.append(head.out_proj.weight @ x + head.out_proj.bias)
    return torch.stack(found)


@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_logits_and_gradients(pooling, unpad, dictionary):
    model, tokens = model_of(dictionary, pooling=pooling, unpad=unpad, rel_pos=True), batch()
    weights = torch.randn(3, 3, dtype=torch.float64)
    runs = []
    for logits in (
        model(tokens, features_only=True, classification_head_name=HEAD)[0],
        by_hand(model, tokens, pooling),
    ):
        model.zero_grad()
        (logits * weights).sum().backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        runs.append((logits, gradients))
    (found, ours), (expected, theirs) = runs
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert set(ours) == set(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-11)


def test_the_two_differ_and_cls_is_the_default(dictionary):
    tokens = batch()
    plain, cls, mean = (
        model_of(dictionary, **options)(tokens, classification_head_name=HEAD)[0]
        for options in ({}, {"pooling": "cls"}, {"pooling": "mean"})
    )
    assert plain.equal(cls) and (plain - mean).abs().min() > 1e-3


def test_half_precision_keeps_its_dtype(dictionary):
    model = model_of(dictionary, pooling="mean")
    expected = model(batch(), classification_head_name=HEAD)[0]
    found = model.bfloat16()(batch(), classification_head_name=HEAD)[0]
    assert found.dtype == torch.bfloat16
    # 8 bits of a mantissa, in two layers and the head
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=0.06)


def test_a_head_that_gets_words_gets_no_mean(dictionary):
    model, tokens = model_of(dictionary, pooling="mean"), batch()
    model.register_tagging_head("tags", num_classes=2)
    head = model.double().eval().classification_heads["tags"]
    features = model(tokens, features_only=True)[0]
    starts = tokens > 6
    found = model(tokens, classification_head_name="tags", word_starts=starts)[0]
    assert found.equal(head(features[starts])) and len(found) == starts.sum()
    assert head_outputs(head, features, tokens.ne(PAD)).equal(head(features))


def test_a_head_that_is_not_told_what_is_padding(dictionary):
    """By fairseq's own hub interface, as RobertaModel.from_pretrained gives it."""
    hub = RobertaHubInterface(
        argparse.Namespace(bpe=None), None, model_of(dictionary, pooling="mean")
    )
    with pytest.raises(ValueError, match="must know what is padding: load .* TupeRobertaModel.fro"):
        hub.predict(HEAD, batch())


@pytest.mark.parametrize("own, others", [("mean", "cls"), ("cls", "mean")])
def test_weights_of_another_pooling_are_refused(own, others, dictionary):
    saved = model_of(dictionary, pooling=others).state_dict()
    model = model_of(dictionary, pooling=own)
    message = f"--pooling of {HEAD} is {others} in the checkpoint and {own} in this model"
    with pytest.raises(ValueError, match=message):
        model.load_state_dict(dict(saved))
    # also where the head is made when it is loaded
    del model.classification_heads[HEAD]
    with pytest.raises(ValueError, match=message):
        model.load_state_dict(dict(saved))
    # but where it is left out, only the encoder is loaded
    model.args.load_checkpoint_heads = False
    model.load_state_dict(dict(saved))
    model.register_classification_head(HEAD, num_classes=2)  # of another size
    model.load_state_dict(dict(saved))
    assert model.classification_heads[HEAD].out_proj.out_features == 2


def test_a_part_needs_no_record(dictionary):
    """As fairseq's moving average, which leaves it out."""
    saved = model_of(dictionary, pooling="mean").state_dict()
    part = {name: tensor for name, tensor in saved.items() if "version" not in name}
    model = model_of(dictionary, pooling="mean")
    model.classification_heads[HEAD].dense.weight.data.zero_()
    model.load_state_dict(part, strict=False)
    dense = f"classification_heads.{HEAD}.dense.weight"
    assert model.state_dict()[dense].equal(saved[dense])
    with pytest.raises(ValueError, match="is mean in the checkpoint and cls in this model"):
        model_of(dictionary).load_state_dict(dict(saved), strict=False)


def test_weights_come_back(dictionary):
    saved = model_of(dictionary, pooling="mean").state_dict()
    assert saved[f"classification_heads.{HEAD}.pooling_version"].dtype == torch.int64
    model = model_of(dictionary, pooling="mean")
    del model.classification_heads[HEAD]
    model.load_state_dict(dict(saved))
    tokens = batch()
    expected = model_of(dictionary, pooling="mean")(tokens, classification_head_name=HEAD)[0]
    assert model.double().eval()(tokens, classification_head_name=HEAD)[0].equal(expected)


def test_pre_training_refuses_it(dictionary):
    with pytest.raises(ValueError, match="--pooling mean is for classification heads, and masked"):
        build(dictionary, pooling="mean")


def test_a_hydra_key_that_is_no_pooling(dictionary):
    with pytest.raises(ValueError, match="unknown pooling 'max'; --pooling is one of cls, mean"):
        build(dictionary, pooling="max")
