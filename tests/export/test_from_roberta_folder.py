"""Folders of the transformers library's RoBERTa, written by it, become checkpoints."""

import argparse
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification

from helpers.crafted import LINES, OPTIONS, E, whole_state
from helpers.model_folders import HEAD, change_config, with_head, write_tokenizer
from helpers.running import call_program
from tupe_fairseq import TupeConfig, TupeEncoder, TupeRobertaModel
from tupe_fairseq.checkpoint.state_dict import symbols_of
from tupe_fairseq.commands.convert import main
from tupe_fairseq.export.as_roberta import roberta_config, roberta_tensors
from tupe_fairseq.export.folder_tensors import to_folder

SIZES = {
    "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 18, "layer_norm_eps": 1e-5,
    "type_vocab_size": 1,
}  # fmt: skip
TOKENS = torch.tensor([[0, 5, 7, 11, 4, 2], [0, 9, 2, 1, 1, 1]])


def write(folder, kind=RobertaForMaskedLM, **options):
    """A random model's folder and the model; nothing in it is zero."""
    model = kind(RobertaConfig(**{**SIZES, **options})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    (folder / "dict.txt").write_text("\n".join(LINES) + "\n")
    return model


def convert(folder):
    return call_program(main, ["--checkpoint", folder, "--output-dir", folder.parent / "out"])


def converted(folder):
    code, text = convert(folder)
    assert code == 0, text
    return TupeRobertaModel.from_pretrained(str(folder.parent / "out")).eval(), text


@pytest.mark.parametrize("options", [{}, {"type_vocab_size": 2}, {"tie_word_embeddings": False}])
def test_the_same_logits(options, tmp_path):
    theirs = write(tmp_path / "a", **options)
    ours, _ = converted(tmp_path / "a")
    real = TOKENS.ne(1)
    with torch.no_grad():
        expected = theirs(TOKENS, attention_mask=real.long()).logits
        found, _ = ours.model(TOKENS)
    torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("head", [None, HEAD])
def test_what_was_exported_comes_back_bit_by_bit(head, tmp_path):
    config = TupeConfig(embed_dim=8, num_heads=2, num_layers=2, ffn_embed_dim=12, max_positions=16,
                        position_encoding="learned")  # fmt: skip
    kept = {k: v for k, v in whole_state()["model"].items() if not k.startswith(E)}
    model = {E + name: tensor for name, tensor in TupeEncoder(config).state_dict().items()}
    model = {**model, **kept, E + "embed_tokens.weight": kept["encoder.lm_head.weight"].clone()}
    model[E + "position_bias.pos.weight"].data[0, 0] = -0.0
    if head is not None:
        model = with_head(model, head)
    options = argparse.Namespace(**{**OPTIONS, "pooler_dropout": 0.3})
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps(roberta_config(options, symbols_of(LINES), head))
    )
    (folder / "dict.txt").write_text("\n".join(LINES) + "\n")
    tensors = to_folder(model, head and head.name)
    save_file(roberta_tensors(tensors, head), folder / "model.safetensors")
    ours, text = converted(folder)
    assert ours.model.args.pooler_dropout == 0.3 and ours.model.max_positions() == 16
    found = torch.load(tmp_path / "out" / "model.pt")["model"]
    assert set(found) == set(model)
    # RoBERTa's classifiers have no LM head, so that theirs is a new one
    new = set() if head is None else {"encoder.lm_head.dense.weight"}
    assert {name for name in model if not found[name].equal(model[name])} == new
    signs = found[E + "position_bias.pos.weight"].signbit()
    assert signs.equal(model[E + "position_bias.pos.weight"].signbit())


def test_a_classifier_with_its_labels(tmp_path):
    theirs = write(
        tmp_path / "a", RobertaForSequenceClassification, id2label={0: "no", 1: "yes", 2: "both"}
    )
    write_tokenizer(tmp_path / "a", symbols_of(LINES), "bpe")
    ours, text = converted(tmp_path / "a")
    assert "THE FOLDER HAS NO LM HEAD" in text
    with torch.no_grad():
        expected = theirs(TOKENS, attention_mask=TOKENS.ne(1).long()).logits
    found = ours.predict("sentence_classification_head", TOKENS, return_logits=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert (tmp_path / "out" / "label" / "dict.txt").read_text() == "no 1\nyes 1\nboth 1\n"


@pytest.mark.parametrize(
    "field, value",
    [
        ("hidden_act", "relu"), ("layer_norm_eps", 1e-12), ("is_decoder", True),
        ("position_embedding_type", "relative_key"), ("pad_token_id", 0),
    ],
)  # fmt: skip
def test_models_that_ours_cannot_be(field, value, tmp_path):
    write(tmp_path / "a")
    change_config(tmp_path / "a", **{field: value})
    code, text = convert(tmp_path / "a")
    (line,) = text.splitlines()
    assert code == 2 and f"tupe_roberta cannot be: {field} {value}, not " in line


@pytest.mark.parametrize("length", ["18", 2, 10**9, None])
def test_a_length_that_is_none(length, tmp_path):
    write(tmp_path / "a")
    change_config(tmp_path / "a", max_position_embeddings=length)
    code, text = convert(tmp_path / "a")
    (line,) = text.splitlines()
    assert code == 2 and "max_position" in line and not (tmp_path / "out").exists()


def test_tensors_that_do_not_fit(tmp_path):
    write(tmp_path / "a")
    path = tmp_path / "a" / "model.safetensors"
    tensors = load_file(path)
    name = "roberta.embeddings.token_type_embeddings.weight"
    for change, message in [
        ({name: torch.ones(1, 9)}, "token_type_embeddings.weight is [1, 9], and"),
        ({"lm_head.decoder.bias": torch.ones(12)}, "lm_head.decoder.bias is there twice"),
        ({"roberta.encoder.layer.0.x": torch.ones(1)}, "unexpected encoder.sentence_encoder."),
        ({"roberta.encoder.layer.5.output.dense.bias": torch.ones(8)}, "its tensors have 3"),
    ]:
        save_file({**tensors, **change}, path)
        code, text = convert(tmp_path / "a")
        (line,) = text.splitlines()
        assert code == 2 and message in line
