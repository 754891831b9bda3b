"""The model: what each flag changes, its sizes, learned positions as in stock RoBERTa, heads."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.ema import build_ema
from torch.utils.flop_counter import FlopCounterMode

from helpers import training
from helpers.running import USER_DIR
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.from_roberta import rename_tensors
from tupe_fairseq.flops import peak_flops
from tupe_fairseq.options import ARCHITECTURES, flag

SMALL = ["--encoder-embed-dim", 12, "--encoder-ffn-embed-dim", 10, "--encoder-attention-heads", 2]
TINY = ["--arch", "tupe_roberta_tiny", *SMALL, "--max-positions", 9]
PAD, HEAD = 1, "a"


def parse(folder, *flags):
    words = [folder, "--user-dir", USER_DIR, "--task", "tupe_masked_lm"]
    words += ["--tokens-per-sample", 8, *flags]
    return options.parse_args_and_arch(options.get_training_parser(), list(map(str, words)))


def build(folder, *flags):
    args = parse(folder, *flags)
    return tasks.setup_task(args).build_model(args)


def with_head(folder, *flags):
    model = build(folder, *TINY, *flags)
    model.register_classification_head(HEAD, num_classes=3)
    return model


# ---- Flags and sizes ----------------------------------------------------------------------------


def options_of(model):
    """The options of a model, as its parts have them; tests/core shows what each does there."""
    encoder, head = model.encoder.sentence_encoder, model.classification_heads[HEAD]
    return {
        **dataclasses.asdict(encoder.config),
        "pooler_activation_fn": head.activation_fn,
        "pooler_dropout": head.dropout.p,
        "pooling": head.pooling,
        "untie_weights_roberta": model.encoder.lm_head.weight is not encoder.embed_tokens.weight,
        "isolate_documents": model.encoder.document_start is not None,
        # fairseq's wrapper replaces the method
        "checkpoint_activations": "forward" in vars(encoder.layers[0]),
    }


#: an option and its value, and the flags that it needs
CHANGES = [
    ("num_layers", 3), ("embed_dim", 16), ("ffn_embed_dim", 11), ("num_heads", 3),
    ("activation_fn", "relu"), ("pooler_activation_fn", "relu"), ("normalize_before", True),
    ("dropout", 0.3), ("attention_dropout", 0.3), ("activation_dropout", 0.3),
    ("pooler_dropout", 0.3), ("pooling", "mean", "--load-checkpoint-heads"),
    ("max_positions", 20), ("untie_weights_roberta", True), ("position_encoding", "learned"),
    ("rel_pos_buckets", 8, "--rel-pos"), ("max_rel_pos", 20, "--rel-pos"), ("tie_cls", True),
    ("untie_cls", True, "--position-encoding", "alibi"), ("attn_impl", "chunked"),
    ("isolate_documents", True), ("checkpoint_activations", True),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
def test_a_flag_changes_one_option(change, data):
    name, value, *needed = change
    flags = [*needed, flag(name), *([] if value is True else [value])]
    before, after = (options_of(with_head(data, *x)) for x in (needed, flags))
    assert {x: after[x] for x in after if after[x] != before[x]} == {name: value}


def test_flags_that_change_several_options(data):
    before = options_of(with_head(data))
    after = options_of(with_head(data, "--rel-pos", "--offload-activations"))
    assert {x: after[x] for x in after if after[x] != before[x]} == {
        "rel_pos": True, "rel_pos_buckets": 32, "max_rel_pos": 128, "checkpoint_activations": True,
    }  # fmt: skip


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_sizes(arch, data):
    layers, width, heads = ARCHITECTURES[arch]
    args = parse(data, "--arch", arch)
    assert (args.encoder_layers, args.encoder_embed_dim) == (layers, width)
    assert (args.encoder_ffn_embed_dim, args.encoder_attention_heads) == (4 * width, heads)
    assert ARCH_MODEL_REGISTRY[arch] is TupeRobertaModel
    args = parse(data, "--arch", arch, "--encoder-layers", 5, "--rel-pos")
    assert (args.encoder_layers, args.rel_pos_buckets, args.max_rel_pos) == (5, 32, 128)


def test_masked_tokens_alone(data):
    """The logits are those of a whole pass, and their number is not read from the device."""
    flags = [*training.MODEL, *training.PRETRAINING, "--rel-pos"]
    task, model, criterion = training.build(data, *flags)
    task.load_dataset("train")
    dataset = task.datasets["train"]
    batch = dataset.collater([dataset[0]] * 4)  # of one length, without padding
    is_masked, net_input = batch["target"].ne(PAD), batch["net_input"]
    assert net_input["lengths"] == [batch["net_input"]["src_tokens"].size(1)] * 4
    with torch.no_grad(), torch.profiler.profile() as profile:
        logits, _ = model.eval()(**net_input, masked_tokens=is_masked)
    assert "aten::nonzero" not in [event.key for event in profile.key_averages()]
    expected = model(net_input["src_tokens"])[0][is_masked]
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(
        criterion(model, batch)[0],
        F.cross_entropy(expected, batch["target"][is_masked], reduction="sum"),
    )
    batch = dataset.collater([{**dataset[n], "target": torch.full((5,), PAD)} for n in range(2)])
    assert batch["net_input"]["masked_positions"].tolist() == list(range(10))


def test_flops_are_those_that_torch_counts(data):
    flags = ["--position-encoding", "none", "--attn-impl", "eager"]
    model = build(data, *TINY, *flags)
    tokens = torch.randint(4, 30, (3, 8))
    is_masked = torch.rand(3, 8, generator=torch.Generator().manual_seed(1)) < 0.3
    with FlopCounterMode(display=False) as counter:
        model(tokens, masked_tokens=is_masked)[0].sum().backward()
    masked = int(is_masked.sum()) / 24
    assert counter.get_total_flops() == pytest.approx(24 * model.training_flops(8, masked))


@pytest.mark.parametrize(
    "card, tera",
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("CPU", None),
    ],
)
def test_peak_of_a_card(card, tera):
    assert peak_flops(card) == (tera and tera * 1e12)


# ---- Learned positions are fairseq's own RoBERTa ------------------------------------------------

STYLES = {
    "post-LN": (["--arch", "roberta_base"], []),
    "pre-LN": (
        ["--arch", "roberta_prenorm", "--layernorm-embedding"], ["--encoder-normalize-before"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("style, training", [("post-LN", True), ("pre-LN", False)])
def test_learned_is_stock_roberta(style, training, data):
    """In float64, with relu: fairseq's gelu always rounds to float32."""
    flags = ["--encoder-layers", 3, *SMALL, "--max-positions", 17, "--tokens-per-sample", 16]
    flags += ["--dropout", 0, "--attention-dropout", 0, "--activation-fn", "relu"]
    stock = build(data, *STYLES[style][0], *flags, "--task", "masked_lm").double().train(training)
    for parameter in stock.parameters():
        torch.nn.init.normal_(parameter, mean=0.1, std=0.3)
    flags += ["--arch", "tupe_roberta", "--position-encoding", "learned", *STYLES[style][1]]
    model = build(data, *flags).double().train(training)
    records = {name: x for name, x in model.state_dict().items() if name.endswith("version")}
    model.load_state_dict({**rename_tensors(stock.state_dict()), **records})
    lengths = torch.tensor([16, 11, 5, 1])
    is_token = torch.arange(16) < lengths[:, None]
    tokens = torch.randint(4, 24, (4, 16)).masked_fill(~is_token, PAD)
    tokens[:, 0] = 0
    outputs = []
    for one in (model, stock):
        logits, extra = one(tokens, return_all_hiddens=True)
        F.cross_entropy(logits[is_token], tokens[is_token]).backward()
        outputs.append([logits, *(x.transpose(0, 1) for x in extra["inner_states"])])
    assert len(outputs[0]) == len(outputs[1]) == 5
    for x, expected in zip(*outputs):
        torch.testing.assert_close(x[is_token], expected[is_token], rtol=0, atol=1e-9)
    gradients = {n: p.grad for n, p in stock.named_parameters() if p.grad is not None}
    expected = rename_tensors(gradients)
    assert sorted(expected) == sorted(name for name, _ in model.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=0, atol=1e-9)


# ---- Heads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling(pooling, data):
    """Logits and gradients by the head's formula, on the features of each row alone."""
    flags = ["--pooling", pooling, "--load-checkpoint-heads", "--rel-pos"]
    model, lengths = with_head(data, *flags).double().eval(), [8, 2, 6]
    is_token = torch.arange(8) < torch.tensor(lengths)[:, None]
    tokens = torch.randint(4, 11, (3, 8)).masked_fill(~is_token, PAD)
    tokens[:, 0] = 0
    head, expected = model.classification_heads[HEAD], []
    for row, length in zip(tokens, lengths):
        features = model(row[None, :length], features_only=True)[0][0]
        x = features.mean(0) if pooling == "mean" else features[0]
        expected.append(head.out_proj(torch.tanh(head.dense(x))))
    runs = []
    for logits in (model(tokens, classification_head_name=HEAD)[0], torch.stack(expected)):
        model.zero_grad()
        (logits * torch.arange(9.0).view(3, 3)).sum().backward()
        runs.append([logits, *(p.grad for p in model.parameters() if p.grad is not None)])
    for x, other in zip(*runs):
        torch.testing.assert_close(x, other, rtol=0, atol=1e-11)


def test_heads_of_a_checkpoint(data, caplog):
    saved = with_head(data).state_dict()
    saved.update({n.replace(".a.", ".b."): x + 1 for n, x in saved.items() if ".a." in n})
    model = build(data, *TINY)
    model.load_state_dict(saved)
    assert not model.classification_heads and "head b is ignored" in caplog.text
    model = build(data, *TINY, "--load-checkpoint-heads")
    model.load_state_dict(saved)
    assert set(model.classification_heads) == {"a", "b"}
    name = "classification_heads.b.out_proj.weight"
    assert model.state_dict()[name].equal(saved[name])
    model.register_classification_head("b", num_classes=7)  # a new task of the same name
    own = model.state_dict()[name].clone()
    model.load_state_dict(saved)
    assert model.state_dict()[name].equal(own)


def test_weights_of_another_pooling_are_refused(data):
    flags = ["--load-checkpoint-heads", "--pooling"]
    saved, model = with_head(data, *flags, "cls").state_dict(), with_head(data, *flags, "mean")
    message = "--pooling of the head a is cls in the checkpoint and mean in this model"
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            model.load_state_dict(saved)
        model.classification_heads.clear()  # loading creates them


def test_a_moving_average(data, caplog):
    """fairseq's EMA loads a state dict without position records, at every update."""
    flags = [*TINY, "--rel-pos", "--store-ema", "--ema-decay", 0.9, "--untie-weights-roberta"]
    model = build(data, *flags)
    average = build_ema(model, convert_namespace_to_omegaconf(parse(data, *flags)).ema, "cpu")
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    caplog.clear()
    average.step(model)
    assert not caplog.records
    for name, x in average.get_model().state_dict().items():
        torch.testing.assert_close(x, before[name] if "version" in name else before[name] + 0.1)
