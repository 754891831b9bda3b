"""tupe-convert on checkpoints of fairseq's own RoBERTa, trained here by fairseq-train."""

import argparse
import copy
import json

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR, call_program
from helpers.training import SIZE, TRAINING, losses, pretrain
from tupe_fairseq import TupeRobertaModel

LAYER = "encoder.sentence_encoder.layers.1."
STALE_COPIES = [
    "in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias",
    "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias",
]  # fmt: skip


def convert(checkpoint, dictionary, out, *flags):
    return call_program(
        "convert", ["--checkpoint", checkpoint, "--dict", dictionary, "--output-dir", out, *flags]
    )


@pytest.fixture(scope="module")
def stock(data, tmp_path_factory):
    """The folder of a RoBERTa trained for three updates."""
    folder = tmp_path_factory.mktemp("stock")
    pretrain(data, folder, "--arch", "roberta_base", "--max-update", 3)
    return folder


@pytest.fixture(scope="module")
def converted(stock, data, run, tmp_path_factory):
    out = tmp_path_factory.mktemp("converted") / "out"
    run("tupe-convert", "--checkpoint", stock / "checkpoint_last.pt", "--dict", data / "dict.txt",
        "--output-dir", out)  # fmt: skip
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


def test_the_positions_are_the_rows_after_the_first_two(state, converted):
    table = state["model"]["encoder.sentence_encoder.embed_positions.weight"]
    model = torch.load(converted / "model.pt")["model"]
    assert len(table) == 66
    assert model["encoder.sentence_encoder.position_bias.pos.weight"].equal(table[2:])


def test_copies_that_fairseq_0_12_2_keeps_are_ignored(state, converted, data, tmp_path):
    """Eight per layer, with any content; files of other versions have none."""
    for layer in (0, 1):
        for name in STALE_COPIES:
            state["model"][LAYER.replace("1", str(layer)) + name] = torch.full((3,), float("nan"))
    torch.save(state, tmp_path / "stale.pt")
    code, output = convert(tmp_path / "stale.pt", data / "dict.txt", tmp_path / "out")
    assert code == 0, output
    found = torch.load(tmp_path / "out" / "model.pt")["model"]
    expected = torch.load(converted / "model.pt")["model"]
    assert sorted(found) == sorted(expected)
    assert all(found[name].equal(expected[name]) for name in expected)


def test_a_file_as_the_public_releases_are(state, converted, data, tmp_path):
    """Half precision, the format before torch 1.6, options in args, names of 2019."""
    model = {}
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


def test_validation_gives_the_same_loss(stock, converted, data, run):
    found = []
    for checkpoint in (stock / "checkpoint_last.pt", converted / "model.pt"):
        process = run(
            "fairseq-validate", data, "--path", checkpoint, "--user-dir", USER_DIR, "--task",
            "masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "complete",
            "--tokens-per-sample", 64, "--skip-invalid-size-inputs-valid-test", "--batch-size", 8,
            "--num-workers", 0, "--data-buffer-size", 0, "--seed", 3, "--cpu", "--log-format",
            "json",
        )  # fmt: skip
        lines = [line for line in process.stdout.splitlines() if '"valid_loss"' in line]
        found.append(float(json.loads(lines[-1][lines[-1].index("{") :])["valid_loss"]))
    assert 1 < found[0] < 20
    assert found[1] == pytest.approx(found[0], abs=0.001)


def test_both_learn_the_same(stock, converted, data, tmp_path):
    flags = [
        "--max-update", 4, "--dropout", 0, "--attention-dropout", 0, "--weight-decay", 0,
        "--no-save",
    ]  # fmt: skip
    expected = pretrain(
        data, tmp_path / "stock", *flags, "--arch", "roberta_base", "--restore-file",
        stock / "checkpoint_last.pt", "--reset-optimizer", "--reset-dataloader",
        "--reset-lr-scheduler", "--reset-meters",
    )  # fmt: skip
    found = pretrain(
        data, tmp_path / "ours", *flags, "--position-encoding", "learned", "--restore-file",
        converted / "model.pt",
    )  # fmt: skip
    assert len(losses(found)) == 4
    assert losses(found) == pytest.approx(losses(expected), abs=0.002)


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


@pytest.mark.parametrize(
    "option",
    [
        {"adaptive_input": True}, {"encoder_layers_to_keep": "0,1"}, {"encoder_learned_pos": False},
        {"encoder_mystery": 3}, {"ffn_blocks_to_remove": 2}, {"ffn_reg_scale_factor": 0.1},
        {"layernorm_embedding": False}, {"mha_heads_to_keep": 2}, {"mha_reg_scale_factor": 0.1},
        {"no_scale_embedding": False}, {"no_token_positional_embeddings": True},
        {"quant_noise_pq": 0.1}, {"quant_noise_scalar": 0.5},
        {"spectral_norm_classification_head": True},
    ],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_options_of_another_model_are_named(option, state, refusal):
    vars(state["cfg"]["model"]).update(option)
    ((name, value),) = option.items()
    assert f"options unknown to tupe_roberta: {name}={value!r}" in refusal(state)


def set_arch(arch):
    def change(state):
        state["cfg"]["model"].arch = arch

    return change


def drop(state):
    del state["model"][LAYER + "self_attn.k_proj.weight"]


def add(state):
    state["model"][LAYER + "fc3_weight"] = torch.zeros(3)


def shorten_table(state):
    table = "encoder.sentence_encoder.embed_positions.weight"
    state["model"][table] = state["model"][table][:40]


def twice(state):
    state["model"]["decoder.lm_head.bias"] = state["model"]["encoder.lm_head.bias"]


def untie(state):
    weight = state["model"]["encoder.lm_head.weight"]
    state["model"]["encoder.lm_head.weight"] = weight + 1


@pytest.mark.parametrize(
    "change, message",
    [
        (drop, f"{LAYER}self_attn.q_proj.weight"),
        (add, f'Unexpected key(s) in state_dict: "{LAYER}fc3_weight"'),
        (shorten_table, "param with shape torch.Size([38, 32]) from checkpoint"),
        (twice, "the tensor encoder.lm_head.bias is there twice, once as decoder.lm_head.bias"),
        (untie, "lm_head.weight is not the word embedding"),
        (set_arch("transformer"), "arch is transformer, neither one of the TUPE authors' bert_*"),
        (lambda state: state["cfg"].pop("model"), "holds no options, so it is not a"),
    ],
    ids=["missing", "extra", "table", "twice", "untied", "arch", "no_options"],
)  # fmt: skip
def test_anything_unexpected_is_named(change, message, state, refusal):
    state = copy.deepcopy(state)
    change(state)
    assert message in refusal(state)


def test_a_dictionary_that_is_not_its_own(state, data, refusal, tmp_path):
    lines = (data / "dict.txt").read_text().splitlines()
    (tmp_path / "shorter").write_text("\n".join(lines[:-1]) + "\n")
    assert "use the dict.txt that the checkpoint was trained with" in refusal(
        state, tmp_path / "shorter"
    )


def test_untied_weights_stay_untied(state, data, tmp_path):
    untie(state)
    state["cfg"]["model"].untie_weights_roberta = True
    torch.save(state, tmp_path / "checkpoint_last.pt")
    code, output = convert(tmp_path / "checkpoint_last.pt", data / "dict.txt", tmp_path / "out")
    assert code == 0, output
    assert_same_model(*load_both(tmp_path, tmp_path / "out", data))
