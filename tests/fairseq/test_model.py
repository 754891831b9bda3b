"""The model: what each flag changes, its sizes, and heads of a checkpoint."""

import dataclasses
import inspect
import runpy

import pytest
import torch
import torch.nn.functional as F
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.ema import build_ema
from omegaconf import OmegaConf
from torch.utils.flop_counter import FlopCounterMode

import tupe_fairseq
from helpers import training
from helpers.running import REPO, USER_DIR
from tupe_fairseq import TupeRobertaModel
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


def test_public_classes_name_their_parameters():
    """As help() and editors show them."""
    for name in tupe_fairseq.__all__:
        parameters = inspect.signature(getattr(tupe_fairseq, name)).parameters.values()
        assert parameters and not [
            x for x in parameters if x.kind in (x.VAR_POSITIONAL, x.VAR_KEYWORD)
        ]


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
        "checkpoint_activations": encoder.layers[0].gradient_checkpointing,
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
    ("isolate_documents", True), ("checkpoint_activations", True), ("one_way_heads", True),
    ("rope_base", 500, "--position-encoding", "rope"),
    ("rope_share", 0.5, "--position-encoding", "rope"),
    ("rel_pos_buckets", 128, "--position-encoding", "deberta"),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
def test_a_flag_changes_one_option(change, data):
    name, value, *needed = change
    flags = [*needed, flag(name), *([] if value is True else [value])]
    before, after = (options_of(with_head(data, *x)) for x in (needed, flags))
    assert {x: after[x] for x in after if after[x] != before[x]} == {name: value}


def test_flags_that_change_several_options(data):
    before = options_of(with_head(data))
    after = options_of(with_head(data, "--rel-pos"))
    assert {x: after[x] for x in after if after[x] != before[x]} == {
        "rel_pos": True, "rel_pos_buckets": 32, "max_rel_pos": 128,
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


def test_the_default_of_max_positions_is_the_length_of_samples(data):
    assert build(data, "--arch", "tupe_roberta_tiny", *SMALL).max_positions() == 8
    args = parse(data, "--arch", "tupe_roberta_tiny", *SMALL)
    task = tasks.setup_task(args)
    for own in (args, OmegaConf.create({"_name": "tupe_roberta_tiny", "max_positions": None})):
        own.tokens_per_sample = 16
        assert task.build_model(own).max_positions() == 16


def test_a_task_that_knows_no_length(data, tmp_path):
    """fairseq's task of XLM-R."""
    for place in ("dict.txt", "en", "de"):
        (tmp_path / place).symlink_to(data / "dict.txt" if "." in place else data)
    flags = ["--task", "multilingual_masked_lm", "--arch", "tupe_roberta_tiny", *SMALL]
    _, model, _ = training.build(tmp_path, "--user-dir", USER_DIR, *flags)
    assert model.max_positions() == 512  # its --tokens-per-sample


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


def test_flops_of_the_benchmarks_are_those_that_torch_counts(data):
    flops = runpy.run_path(REPO / "scripts" / "benchmarks" / "flops.py")
    flags = ["--position-encoding", "none", "--attn-impl", "eager"]
    model = build(data, *TINY, *flags)
    tokens = torch.randint(4, 30, (3, 8))
    is_masked = torch.rand(3, 8, generator=torch.Generator().manual_seed(1)) < 0.3
    with FlopCounterMode(display=False) as counter:
        model(tokens, masked_tokens=is_masked)[0].sum().backward()
    masked = int(is_masked.sum()) / 24
    vocabulary = model.encoder.sentence_encoder.embed_tokens.num_embeddings
    expected = flops["training_flops"](2, 12, 10, vocabulary, 8, masked)
    assert counter.get_total_flops() == pytest.approx(24 * expected)


# ---- Heads --------------------------------------------------------------------------------------


def test_heads_of_a_checkpoint(data, caplog):
    saved = with_head(data).state_dict()
    other = {n.replace(".a.", ".b."): x + 1 for n, x in saved.items() if ".a." in n}
    other["classification_heads.b.activation_version"] -= 1
    saved.update(other)
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


def test_weights_of_another_activation_are_refused(data):
    saved, model = with_head(data).state_dict(), with_head(data, "--pooler-activation-fn", "relu")
    with pytest.raises(
        ValueError, match="--pooler-activation-fn is tanh in the checkpoint and relu"
    ):
        model.load_state_dict(saved)
    del saved["classification_heads.a.activation_version"]  # as in older checkpoints
    model.load_state_dict(saved)


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
