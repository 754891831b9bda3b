"""Flags, presets and what a built model is, without training."""

import argparse

import pytest
import torch
import torch.nn.functional as F
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.ema import build_ema

from helpers.running import USER_DIR
from tupe_fairseq import TupeRobertaModel

SIZES = {
    "tupe_roberta": (12, 768, 3072, 12),
    "tupe_roberta_base": (12, 768, 3072, 12),
    "tupe_roberta_large": (24, 1024, 4096, 16),
    "tupe_roberta_tiny": (2, 128, 512, 2),
    "tupe_roberta_mini": (4, 256, 1024, 4),
    "tupe_roberta_small": (4, 512, 2048, 8),
    "tupe_roberta_medium": (8, 512, 2048, 8),
}


@pytest.fixture
def folder(tmp_path):
    dictionary = Dictionary()
    for n in range(20):
        dictionary.add_symbol(f"w{n}")
    dictionary.save(str(tmp_path / "dict.txt"))
    return tmp_path


def parse(folder, *flags):
    parser = options.get_training_parser()
    words = [
        str(folder), "--user-dir", USER_DIR, "--task", "masked_lm", "--tokens-per-sample",
        "16", *map(str, flags),
    ]  # fmt: skip
    return options.parse_args_and_arch(parser, words)


def build(folder, *flags):
    args = parse(folder, *flags)
    return tasks.setup_task(args).build_model(args), args


def test_every_architecture_is_registered():
    ours = {name for name, cls in ARCH_MODEL_REGISTRY.items() if cls is TupeRobertaModel}
    assert ours == set(SIZES)


@pytest.mark.parametrize("arch", SIZES)
def test_sizes(arch, folder):
    args = parse(folder, "--arch", arch)
    found = (
        args.encoder_layers, args.encoder_embed_dim, args.encoder_ffn_embed_dim,
        args.encoder_attention_heads,
    )  # fmt: skip
    assert found == SIZES[arch]


def test_flags_win_over_the_preset(folder):
    args = parse(folder, "--arch", "tupe_roberta_mini", "--encoder-layers", 3, "--rel-pos")
    assert (args.encoder_layers, args.rel_pos_buckets, args.max_rel_pos) == (3, 32, 128)
    assert args.encoder_ffn_embed_dim == 1024
    assert not hasattr(parse(folder, "--arch", "tupe_roberta"), "rel_pos_buckets")


def test_flags_reach_the_encoder(folder):
    model, _ = build(
        folder, "--arch", "tupe_roberta_tiny", "--rel-pos", "--rel-pos-buckets", 8,
        "--max-rel-pos", 20, "--tie-cls", "--dropout", 0.2, "--attention-dropout", 0.3,
        "--activation-dropout", 0.4, "--activation-fn", "relu", "--encoder-normalize-before",
        "--max-positions", 24,
    )  # fmt: skip
    config = model.encoder.sentence_encoder.config
    assert (config.rel_pos, config.rel_pos_buckets, config.max_rel_pos) == (True, 8, 20)
    assert (config.tie_cls, config.normalize_before, config.max_positions) == (True, True, 24)
    dropouts = (config.dropout, config.attention_dropout, config.activation_dropout)
    assert dropouts == (0.2, 0.3, 0.4) and config.activation_fn == "relu"


def test_position_parameters_are_about_one_percent_of_base(folder):
    model, _ = build(folder, "--arch", "tupe_roberta_base", "--rel-pos", "--max-positions", 512)
    bias = model.encoder.sentence_encoder.position_bias
    position = sum(p.numel() for p in bias.parameters())
    # 110M: the body and a vocabulary of 32,768
    assert position == 513 * 768 + 2 * 768 + 2 * (768**2 + 768) + 33 * 12
    assert 0.010 < position / 110e6 < 0.016


def test_a_bf16_step_agrees_with_float32_within_its_rounding(folder):
    flags = ["--arch", "tupe_roberta_tiny", "--rel-pos", "--dropout", 0, "--attention-dropout", 0]
    exact, _ = build(folder, *flags)
    rounded, _ = build(folder, *flags)
    rounded.load_state_dict(exact.state_dict())
    rounded.to(torch.bfloat16)
    tokens = torch.randint(4, 24, (3, 16))
    tokens[:, 0] = 0
    tokens[1, 1:] = 1  # a row that is all padding but <s>
    target = torch.randint(4, 24, (3, 16))
    results = []
    for model in (exact, rounded):
        logits, _ = model(tokens, masked_tokens=tokens.ne(1))
        loss = F.cross_entropy(logits.float(), target[tokens.ne(1)])
        loss.backward()
        grads = torch.cat([p.grad.float().flatten() for p in model.parameters()])
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        assert all(p.isfinite().all() for p in model.parameters())
        stepped = torch.cat([p.detach().float().flatten() for p in model.parameters()])
        results.append((loss.item(), grads, stepped))
    (loss, grads, stepped), (loss_16, grads_16, stepped_16) = results
    eps = torch.finfo(torch.bfloat16).eps
    assert abs(loss - loss_16) < eps * loss
    # errors of some hundred roundings, each at most eps / 2, add up at random
    assert (grads - grads_16).norm() < 5 * eps * grads.norm()
    assert (stepped - stepped_16).norm() < eps * stepped.norm()


def test_initialisation(folder):
    model, _ = build(folder, "--arch", "tupe_roberta_mini", "--rel-pos")
    padding = model.encoder.sentence_encoder.embed_tokens.padding_idx
    for name, parameter in model.named_parameters():
        if name.endswith("bias") and "relative_attention_bias" not in name:
            assert parameter.abs().max() == 0, name
        elif "layer_norm" in name or "layernorm" in name or "pos_ln" in name:
            assert (parameter == 1).all(), name
        elif parameter.numel() > 1000:
            rows = torch.ones(len(parameter), dtype=torch.bool)
            if name.endswith("embed_tokens.weight"):
                assert parameter[padding].abs().max() == 0
                rows[padding] = False
            assert abs(parameter[rows].std() - 0.02) < 0.001, name


def test_the_lm_head_is_tied_and_can_be_untied(folder):
    model, _ = build(folder, "--arch", "tupe_roberta_tiny")
    assert model.encoder.lm_head.weight is model.encoder.sentence_encoder.embed_tokens.weight
    model, _ = build(folder, "--arch", "tupe_roberta_tiny", "--untie-weights-roberta")
    assert model.encoder.lm_head.weight is not model.encoder.sentence_encoder.embed_tokens.weight


def test_offloading_implies_checkpointing(folder):
    assert parse(folder, "--arch", "tupe_roberta", "--offload-activations").checkpoint_activations


def test_state_dict_names_are_fairseqs_and_final(folder):
    model, _ = build(folder, "--arch", "tupe_roberta_tiny", "--encoder-layers", 1, "--rel-pos",
                     "--encoder-normalize-before")  # fmt: skip
    prefix = "encoder.sentence_encoder."
    names = {n[len(prefix) :] for n in model.state_dict() if n.startswith(prefix)}
    layer = {
        f"layers.0.{part}.{kind}"
        for part in ("self_attn.out_proj", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
        for kind in ("weight", "bias")
    }
    layer |= {"layers.0.self_attn.in_proj_weight", "layers.0.self_attn.in_proj_bias"}
    norms = {
        f"{n}.{kind}" for n in ("layernorm_embedding", "layer_norm") for kind in ("weight", "bias")
    }
    absolute = {"pos.weight"} | {
        f"{n}.{kind}" for n in ("pos_ln", "pos_q_proj", "pos_k_proj") for kind in ("weight", "bias")
    }
    position = {f"position_bias.untied_absolute.{name}" for name in absolute}
    position |= {"position_bias.relative.relative_attention_bias.weight", "position_version"}
    assert names == layer | norms | position | {"embed_tokens.weight"}


def test_token_embeddings_of_the_shape_of_the_tokens(folder):
    model, _ = build(folder, "--arch", "tupe_roberta_tiny", "--unpad")
    encoder = model.encoder.sentence_encoder.eval()
    tokens = torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])
    given = encoder(tokens, token_embeddings=encoder.embed_tokens(tokens))["encoder_out"][0]
    assert given.equal(encoder(tokens)["encoder_out"][0])
    with pytest.raises(ValueError, match=r"mask is \(2, 4\), and the input is \(1, 4, 128\)"):
        encoder(tokens, token_embeddings=torch.zeros(1, 4, 128))


def test_a_moving_average_is_updated_and_stored_in_silence(folder, caplog):
    """fairseq's loads a state dict without versions, and does so at every update."""
    flags = ["--arch", "tupe_roberta_tiny", "--rel-pos", "--store-ema", "--ema-decay", 0.9]
    # it averages tensors that are tied once for each of their names
    flags.append("--untie-weights-roberta")
    model, args = build(folder, *flags)
    average = build_ema(model, convert_namespace_to_omegaconf(args).ema, "cpu")
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    caplog.clear()
    average.step(model)
    assert not caplog.records
    stored = average.get_model().state_dict()
    for name, x in before.items():
        torch.testing.assert_close(stored[name], x if "version" in name else x + 0.1)
    average.restore({name: x.clone() for name, x in model.state_dict().items()})
    assert average.get_model().encoder.lm_head.bias.equal(model.encoder.lm_head.bias)
    tied, _ = build(folder, *flags, "--tie-cls")
    with pytest.raises(ValueError, match="--tie-cls is True in the checkpoint"):
        average.restore(tied.state_dict())


def test_a_part_of_a_state_dict(folder):
    model, _ = build(folder, "--arch", "tupe_roberta_tiny", "--rel-pos")
    part = {"encoder.lm_head.bias": torch.ones_like(model.encoder.lm_head.bias)}
    missing, _ = model.load_state_dict(part, strict=False)
    assert len(missing) == len(model.state_dict()) - 1
    assert model.encoder.lm_head.bias.equal(part["encoder.lm_head.bias"])


def test_a_state_dict_cast_to_half_as_a_whole(folder, caplog):
    """The record of the vocabulary does not survive it, and this is said."""
    model, _ = build(folder, "--arch", "tupe_roberta_tiny", "--rel-pos")
    expected = model.encoder.vocabulary_version.clone()
    model.load_state_dict({name: x.half() for name, x in model.state_dict().items()})
    assert "the checkpoint does not record its vocabulary" in caplog.text
    assert model.encoder.vocabulary_version.equal(expected)


def test_help_of_every_flag_names_its_default_or_mode():
    parser = argparse.ArgumentParser()
    TupeRobertaModel.add_args(parser)
    text = " ".join(parser.format_help().split())
    for flag in ("--rel-pos", "--rel-pos-buckets N", "--max-rel-pos N", "--tie-cls"):
        assert flag in text
    assert "only with --rel-pos; default 32" in text
