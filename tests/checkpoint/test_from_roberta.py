"""tupe-convert on checkpoints of fairseq's own RoBERTa, trained here by fairseq-train."""

import argparse

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import call_program
from helpers.training import SIZE, TRAINING, pretrain
from tupe_fairseq import TupeRobertaModel

LAYER = "encoder.sentence_encoder.layers.1."
TABLE = "encoder.sentence_encoder.embed_positions.weight"
STALE_COPIES = [
    "in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias",
    "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias",
]  # fmt: skip


def convert(checkpoint, dictionary, out, *flags):
    words = ["--checkpoint", checkpoint, "--dict", dictionary, "--output-dir", out, *flags]
    return call_program("convert", words)


@pytest.fixture(scope="module")
def stock(data, tmp_path_factory):
    """The folder of a RoBERTa trained for three updates."""
    folder = tmp_path_factory.mktemp("stock")
    pretrain(data, folder, "--arch", "roberta_base", "--max-update", 3)
    return folder


@pytest.fixture(scope="module")
def converted(stock, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("converted") / "out"
    code, text = convert(stock / "checkpoint_last.pt", data / "dict.txt", out)
    assert code == 0, text
    return out


@pytest.fixture
def state(stock):
    return torch.load(stock / "checkpoint_last.pt", map_location="cpu")


@pytest.fixture
def refusal(data, tmp_path):
    """The line with which tupe-convert ends on a bad state."""

    def refusal(state, dictionary=None):
        torch.save(state, tmp_path / "bad.pt")
        code, output = convert(
            tmp_path / "bad.pt", dictionary or data / "dict.txt", tmp_path / "out"
        )
        assert code == 2 and not (tmp_path / "out").exists()
        return output.splitlines()[-1]

    return refusal


def load_both(folder, converted, dictionary_folder):
    stock = RobertaModel.from_pretrained(
        str(folder), "checkpoint_last.pt", str(dictionary_folder), bpe=None
    )
    ours = TupeRobertaModel.from_pretrained(str(converted))
    return stock.eval(), ours.eval()


def assert_same_model(stock, ours):
    tokens = torch.randint(4, 300, (3, 24))
    tokens[:, 0] = 0
    tokens[1, 9:] = tokens[2, 17:] = stock.task.source_dictionary.pad()
    real = tokens.ne(stock.task.source_dictionary.pad())
    assert stock.task.source_dictionary.symbols == ours.task.source_dictionary.symbols
    with torch.no_grad():
        for features_only in (True, False):
            expected, _ = stock.model(tokens, features_only=features_only)
            found, _ = ours.model(tokens, features_only=features_only)
            torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)


def test_the_converted_model_is_the_stock_one(stock, converted, data):
    theirs, ours = load_both(stock, converted, data)
    assert_same_model(theirs, ours)
    for name in ("dropout", "attention_dropout", "activation_dropout", "activation_fn",
                 "pooler_dropout", "pooler_activation_fn", "max_positions"):  # fmt: skip
        assert getattr(ours.model.args, name) == getattr(theirs.model.args, name), name
    assert ours.model.max_positions() == theirs.model.max_positions() == 64
    assert (converted / "dict.txt").read_text() == (data / "dict.txt").read_text()


def test_a_file_as_the_public_releases_are(state, converted, data, tmp_path):
    """Half precision, the format before torch 1.6, options in args, names of 2019.

    With the copies of weights that fairseq 0.12.2 keeps, which hold anything.
    """
    model = {
        f"{LAYER.replace('1', str(layer))}{name}": torch.full((3,), float("nan"))
        for layer in (0, 1)
        for name in STALE_COPIES
    }
    for name, tensor in state["model"].items():
        if name.rpartition(".")[2] in STALE_COPIES or name.endswith(".version"):
            continue
        if "q_proj" in name:
            parts = [state["model"][name.replace("q_proj", f"{p}_proj")] for p in "qkv"]
            name, tensor = name.replace("q_proj.", "in_proj_"), torch.cat(parts)
        elif "k_proj" in name or "v_proj" in name:
            continue
        name = name.replace("encoder.", "decoder.", 1)
        model[name.replace("layernorm_embedding", "emb_layer_norm")] = tensor.half()
    kept = ("arch", "max_positions", "encoder_layers", "encoder_embed_dim",
            "encoder_ffn_embed_dim", "encoder_attention_heads")  # fmt: skip
    args = {name: getattr(state["cfg"]["model"], name) for name in kept}
    old = {"args": argparse.Namespace(**args), "model": model, "optimizer_history": [],
           "extra_state": {}, "last_optimizer_state": {}}  # fmt: skip
    torch.save(old, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    code, output = convert(tmp_path / "old.pt", data / "dict.txt", tmp_path / "out")
    assert code == 0, output
    found, expected = (torch.load(out / "model.pt") for out in (tmp_path / "out", converted))
    assert vars(found["args"]) == vars(expected["args"])
    assert sorted(found["model"]) == sorted(expected["model"])
    for name, tensor in expected["model"].items():
        rounded = tensor.half().float() if tensor.is_floating_point() else tensor
        assert found["model"][name].equal(rounded), name


def test_a_hydra_run_in_pre_ln(data, run, tmp_path):
    """Its options are a dict, and 0.12.2 leaves max_positions empty there."""
    (tmp_path / "tiny.yaml").write_text(
        "# @package _group_\n"
        "task: {_name: masked_lm, data: '???', tokens_per_sample: 48}\n"
        "criterion: masked_lm\n"
        "dataset: {batch_size: 4, num_workers: 0, disable_validation: true}\n"
        "optimizer: {_name: adam}\n"
        "lr_scheduler: {_name: fixed}\n"
        "optimization: {lr: [0.01], max_update: 2}\n"
        "model: {_name: roberta_prenorm, layernorm_embedding: true, encoder_layers: 2, "
        "encoder_embed_dim: 32, encoder_ffn_embed_dim: 64, encoder_attention_heads: 4}\n"
    )
    run("fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "tiny",
        f"task.data={data}", f"checkpoint.save_dir={tmp_path}", f"hydra.run.dir={tmp_path}",
        "common.cpu=true")  # fmt: skip
    checkpoint = tmp_path / "checkpoint_last.pt"
    code, output = convert(checkpoint, data / "dict.txt", tmp_path / "out")
    assert code == 0, output
    theirs, ours = load_both(tmp_path, tmp_path / "out", data)
    assert_same_model(theirs, ours)
    assert ours.model.encoder.sentence_encoder.layer_norm is not None
    table = theirs.model.encoder.sentence_encoder.embed_positions.weight
    assert ours.model.max_positions() == len(table) - 2


def test_a_fine_tuned_head_with_its_labels(stock, data, run, tmp_path):
    for split, count in (("train", 700), ("valid", 50)):
        (tmp_path / split).write_text("yes\nno\n" * (count // 2))
    run("fairseq-preprocess", "--only-source", "--trainpref", tmp_path / "train", "--validpref",
        tmp_path / "valid", "--destdir", tmp_path / "bin" / "label", "--workers", 1)  # fmt: skip
    (tmp_path / "bin" / "input0").symlink_to(data)
    run(
        "fairseq-train", tmp_path / "bin", *TRAINING, *SIZE, "--arch", "roberta_base", "--task",
        "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", 2,
        "--init-token", 0, "--separator-token", 2, "--max-positions", 64, "--batch-size", 4,
        "--classification-head-name", "yes_no", "--restore-file", stock / "checkpoint_last.pt",
        "--reset-optimizer", "--reset-dataloader", "--reset-meters", "--disable-validation",
        "--skip-invalid-size-inputs-valid-test", "--max-update", 2, "--save-dir", tmp_path,
    )  # fmt: skip
    labels = tmp_path / "bin" / "label" / "dict.txt"
    code, output = convert(tmp_path / "checkpoint_last.pt", data / "dict.txt", tmp_path / "out",
                           "--label-dict", labels)  # fmt: skip
    assert code == 0, output
    theirs, ours = load_both(tmp_path, tmp_path / "out", tmp_path / "bin")
    assert ours.task.label_dictionary.symbols == theirs.task.label_dictionary.symbols
    assert (tmp_path / "out" / "label" / "dict.txt").read_text() == labels.read_text()
    tokens = torch.tensor([[0, 7, 9, 12, 26, 2]])
    expected = theirs.predict("yes_no", tokens, return_logits=True)
    found = ours.predict("yes_no", tokens, return_logits=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def tensor(name, value):
    return lambda state: state["model"].update({name: value(state["model"])})


def option(name, value):
    return lambda state: setattr(state["cfg"]["model"], name, value)


UNTIED = tensor("encoder.lm_head.weight", lambda model: model["encoder.lm_head.weight"] + 1)
OTHER_OPTIONS = {
    "adaptive_input": True, "encoder_layers_to_keep": "0,1", "encoder_learned_pos": False,
    "encoder_mystery": 3, "ffn_blocks_to_remove": 2, "ffn_reg_scale_factor": 0.1,
    "layernorm_embedding": False, "mha_heads_to_keep": 2, "mha_reg_scale_factor": 0.1,
    "no_scale_embedding": False, "no_token_positional_embeddings": True,
    "quant_noise_pq": 0.1, "quant_noise_scalar": 0.5, "spectral_norm_classification_head": True,
}  # fmt: skip
REFUSED = {
    "missing": (
        lambda state: state["model"].pop(LAYER + "self_attn.k_proj.weight"),
        f"{LAYER}self_attn.q_proj.weight",
    ),
    "extra": (
        tensor(LAYER + "fc3_weight", lambda _: torch.zeros(3)),
        f'Unexpected key(s) in state_dict: "{LAYER}fc3_weight"',
    ),
    "table": (tensor(TABLE, lambda model: model[TABLE][:40]), "torch.Size([38, 32]) from checkp"),
    "twice": (
        tensor("decoder.lm_head.bias", lambda model: model["encoder.lm_head.bias"]),
        "the tensor encoder.lm_head.bias is there twice, once as decoder.lm_head.bias",
    ),
    "untied": (UNTIED, "lm_head.weight is not the word embedding"),
    "arch": (option("arch", "transformer"), "arch is transformer, neither one of the TUPE auth"),
    "no_options": (lambda state: state["cfg"].pop("model"), "holds no options, so it is not a"),
    **{
        name: (option(name, value), f"options unknown to tupe_roberta: {name}={value!r}")
        for name, value in OTHER_OPTIONS.items()
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_anything_unexpected_is_named(case, state, refusal):
    change, message = REFUSED[case]
    change(state)
    assert message in refusal(state)


def test_a_dictionary_that_is_not_its_own(state, data, refusal, tmp_path):
    lines = (data / "dict.txt").read_text().splitlines()
    (tmp_path / "shorter").write_text("\n".join(lines[:-1]) + "\n")
    found = refusal(state, tmp_path / "shorter")
    assert "use the dict.txt that the checkpoint was trained with" in found


def test_untied_weights_stay_untied(state, data, tmp_path):
    UNTIED(state)
    state["cfg"]["model"].untie_weights_roberta = True
    torch.save(state, tmp_path / "checkpoint_last.pt")
    code, output = convert(tmp_path / "checkpoint_last.pt", data / "dict.txt", tmp_path / "out")
    assert code == 0, output
    assert_same_model(*load_both(tmp_path, tmp_path / "out", data))
