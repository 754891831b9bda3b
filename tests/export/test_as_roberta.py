"""A checkpoint of learned positions in transformers' own RoBERTa."""

import argparse

import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification

from helpers.exporting import MAX_POSITIONS, build
from tupe_fairseq.export.as_roberta import check_is_roberta, roberta_config, roberta_tensors
from tupe_fairseq.export.folder_config import Head
from tupe_fairseq.export.folder_tensors import to_folder

HEAD = Head("mine", ["no", "yes", "perhaps"], "classification")


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "dict.txt"
    path.write_text("".join(f"w{n} 1\n" for n in range(20)))
    return path


@pytest.mark.parametrize("head", [None, HEAD], ids=["LM", "classes"])
@pytest.mark.parametrize("untied", [False, True], ids=["tied", "untied"])
def test_same_logits(head, untied, dictionary):
    heads = {"mine": 3} if head else None
    args, model = build(
        dictionary, heads, position_encoding="learned", untie_weights_roberta=untied
    )
    model.eval()
    symbols = model.encoder.dictionary.symbols
    config = RobertaConfig.from_dict(roberta_config(model.args, symbols, head))
    tensors = roberta_tensors(to_folder(model.state_dict(), head and head.name, not untied), head)
    theirs = (RobertaForMaskedLM if head is None else RobertaForSequenceClassification)(config)
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    assert not unexpected
    # what is tied to what is there
    tied = (
        {"lm_head.decoder.bias"} if untied else {"lm_head.decoder.bias", "lm_head.decoder.weight"}
    )
    assert set(missing) == (tied if head is None else set())
    theirs.tie_weights()
    theirs.eval()

    tokens = torch.randint(4, len(symbols), (3, MAX_POSITIONS))
    tokens[:, 0] = 0
    for row, length in enumerate((MAX_POSITIONS, 5, 11)):
        tokens[row, length:] = 1
    kept = {} if head is None else {"features_only": True, "classification_head_name": head.name}
    with torch.no_grad():
        ours, _ = model(tokens, **kept)
        found = theirs(input_ids=tokens, attention_mask=tokens.ne(1).long()).logits
    if head is None:
        ours, found = ours[tokens.ne(1)], found[tokens.ne(1)]
    # rounding: logits of about 1 in another order of sums
    torch.testing.assert_close(found, ours, rtol=1e-5, atol=1e-5)
    assert found.abs().max() > 0.1
    assert len({tensor.data_ptr() for tensor in tensors.values()}) == len(tensors)


OPTIONS = {
    "position_encoding": "learned", "encoder_normalize_before": False, "activation_fn": "gelu",
    "activation_dropout": 0.0, "pooler_activation_fn": "tanh", "rel_pos": False, "tie_cls": False,
    "pooling": "cls",
}  # fmt: skip


@pytest.mark.parametrize(
    "change, head, reason",
    [
        ({}, None, None),
        ({"pooler_activation_fn": "relu"}, None, None),
        ({"pooler_activation_fn": "relu"}, HEAD, "--pooler-activation-fn relu, .* only tanh"),
        ({"pooling": "mean"}, HEAD, "--pooling mean, .* only cls"),
        ({"position_encoding": "tupe"}, None, "--position-encoding tupe, .* only learned"),
        ({"rel_pos": True, "rel_pos_buckets": 32}, None, "--rel-pos, and .* no such thing"),
        ({"position_each_layer": True}, None, "--position-each-layer, "),
        ({"encoder_normalize_before": True}, None, "--encoder-normalize-before, "),
        ({"activation_fn": "relu"}, None, "--activation-fn relu, .* only gelu"),
        ({"activation_dropout": 0.1}, None, "--activation-dropout 0.1, "),
    ],
)
def test_what_is_refused(change, head, reason):
    options = argparse.Namespace(**{**OPTIONS, **change})
    if reason is None:
        return check_is_roberta(options, head)
    with pytest.raises(ValueError, match="--as roberta: the checkpoint has " + reason):
        check_is_roberta(options, head)
