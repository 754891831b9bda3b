"""From a checkpoint of the TUPE authors' code to one of this project."""

import argparse
from typing import Any, Dict, List, Optional

from torch import Tensor

from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.config import TupeConfig
from tupe_fairseq.encoder import TupeEncoder

# Prefixes of their tensor names and what they are here; the first that fits.
_RENAMED = (
    ("decoder.sentence_encoder.emb_layer_norm.", "layernorm_embedding."),
    ("decoder.sentence_encoder.emb_out_layer_norm.", "layer_norm."),
    ("decoder.sentence_encoder.pos.", "position_bias.untied_absolute.pos."),
    ("decoder.sentence_encoder.pos_ln.", "position_bias.untied_absolute.pos_ln."),
    ("decoder.sentence_encoder.pos_q_linear.", "position_bias.untied_absolute.pos_q_proj."),
    ("decoder.sentence_encoder.pos_k_linear.", "position_bias.untied_absolute.pos_k_proj."),
    (
        "decoder.sentence_encoder.relative_attention_bias.",
        "position_bias.relative.relative_attention_bias.",
    ),
    ("decoder.sentence_encoder.", ""),
)

# Their options that shape the model, each with its default; the names are fairseq's.
_MODEL_DEFAULTS = {
    "encoder_layers": 12,
    "encoder_embed_dim": 768,
    "encoder_ffn_embed_dim": 3072,
    "encoder_attention_heads": 12,
    "encoder_normalize_before": False,
    "encoder_layerdrop": 0.0,
    "activation_fn": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.0,
    "pooler_activation_fn": "tanh",
    "pooler_dropout": 0.1,
}
# Options that would make it another model, with the only value that is TUPE.
_FIXED = {"embedding_normalize": True, "encoder_layers_to_keep": None}


def our_tensor_name(theirs: str) -> str:
    """The name in a tupe_roberta state dict of a tensor of the authors' state dict."""
    for prefix, ours in _RENAMED:
        if theirs.startswith(prefix):
            return "encoder.sentence_encoder." + ours + theirs[len(prefix) :]
    if theirs.startswith("decoder.lm_head."):
        return theirs.replace("decoder.", "encoder.", 1)
    return theirs


def convert_options(theirs: argparse.Namespace) -> argparse.Namespace:
    """The options of tupe_roberta that build the same model.

    Raises:
        CheckpointError: if the options are those of another model.
    """
    given = vars(theirs)
    arch = given.get("arch")
    if not str(arch).startswith("bert"):
        raise CheckpointError(
            f"the checkpoint's arch is {arch!r}, not one of the TUPE authors' bert_*"
        )
    wrong = [
        f"{name}={given[name]!r}"
        for name, value in given.items()
        if (name in _FIXED and value != _FIXED[name])
        or (name.startswith("encoder_") and name not in {**_MODEL_DEFAULTS, **_FIXED})
    ]
    if wrong:
        raise CheckpointError(f"options that TUPE has not: {', '.join(sorted(wrong))}")

    ours = {name: given.get(name, default) for name, default in _MODEL_DEFAULTS.items()}
    ours["max_positions"] = given.get("max_positions") or given.get("tokens_per_sample") or 512
    ours["tie_cls"] = False
    ours["rel_pos"] = bool(given.get("rel_pos", False))
    if ours["rel_pos"]:
        ours["rel_pos_buckets"] = given.get("rel_pos_bins", 32)
        ours["max_rel_pos"] = given.get("max_rel_pos", 128)
    return argparse.Namespace(
        arch="tupe_roberta",
        task="masked_lm",
        criterion="masked_lm",
        tokens_per_sample=ours["max_positions"],
        data=".",
        attn_impl="auto",
        unpad=False,
        compile_layers=False,
        **ours,
    )


def _expected_shapes(
    args: argparse.Namespace, vocab_size: int, heads: Dict[str, int], encoder: TupeEncoder
) -> Dict[str, List[int]]:
    """Names and shapes of a whole tupe_roberta state dict."""
    dim = args.encoder_embed_dim
    prefix = "encoder.sentence_encoder."
    shapes = {prefix + name: list(tensor.shape) for name, tensor in encoder.state_dict().items()}
    shapes[prefix + "embed_tokens.weight"] = [vocab_size, dim]
    shapes["encoder.lm_head.weight"] = [vocab_size, dim]
    shapes["encoder.lm_head.bias"] = [vocab_size]
    shapes["encoder.lm_head.dense.weight"] = [dim, dim]
    for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias"):
        shapes["encoder.lm_head." + name] = [dim]
    for head, num_classes in heads.items():
        shapes[head + "dense.weight"] = [dim, dim]
        shapes[head + "dense.bias"] = [dim]
        shapes[head + "out_proj.weight"] = [num_classes, dim]
        shapes[head + "out_proj.bias"] = [num_classes]
    return shapes


def classification_heads(model: Dict[str, Tensor]) -> Dict[str, int]:
    """The classification heads of a state dict: name to number of classes."""
    return {
        name.split(".")[1]: tensor.size(0)
        for name, tensor in model.items()
        if name.startswith("classification_heads.") and name.endswith(".out_proj.bias")
    }


def convert_tensors(
    theirs: Dict[str, Tensor], args: argparse.Namespace, vocab_size: int
) -> Dict[str, Tensor]:
    """The state dict of tupe_roberta that computes the same numbers, in float32.

    Args:
        theirs (dict): the authors' state dict.
        args (Namespace): the converted options.
        vocab_size (int): symbols of the converted dictionary, ``<mask>`` included.
    Raises:
        CheckpointError: if a tensor is missing, superfluous, of another shape or none at all,
            each named; or if the LM head is not tied to the word embedding.
    """
    foreign = [name for name, value in theirs.items() if not isinstance(value, Tensor)]
    if foreign:
        raise CheckpointError(f"the state dict holds what is no tensor: {', '.join(foreign)}")
    encoder = TupeEncoder(TupeConfig.from_roberta_options(args))
    model = {our_tensor_name(name): tensor.float() for name, tensor in theirs.items()}
    version = "encoder.sentence_encoder.position_version"
    model[version] = encoder.position_version
    heads = {f"classification_heads.{k}.": n for k, n in classification_heads(model).items()}
    expected = _expected_shapes(args, vocab_size, heads, encoder)
    problems = [f"missing {name}" for name in sorted(set(expected) - set(model))]
    problems += [f"unexpected {name}" for name in sorted(set(model) - set(expected))]
    problems += [
        f"{name} is {list(model[name].shape)}, not {shape}"
        for name, shape in sorted(expected.items())
        if name in model and list(model[name].shape) != shape
    ]
    if problems:
        raise CheckpointError(f"{len(problems)} tensors are wrong: " + "; ".join(problems))
    if not model["encoder.lm_head.weight"].equal(
        model["encoder.sentence_encoder.embed_tokens.weight"]
    ):
        raise CheckpointError("lm_head.weight is not the word embedding, to which TUPE ties it")
    return model


def new_state(
    model: Dict[str, Tensor], args: argparse.Namespace, head: Optional[str]
) -> Dict[str, Any]:
    """A checkpoint whose training starts afresh: epoch 1, update 0, no optimizer state.

    Args:
        model (dict): converted tensors.
        args (Namespace): converted options, completed in place.
        head (str, optional): the classification head to go on fine-tuning, if any.
    """
    if head is not None:
        args.task = args.criterion = "sentence_prediction"
        args.classification_head_name = head
        args.num_classes = classification_heads(model)[head]
        args.regression_target = False  # left out, fairseq would take it for True
        args.init_token, args.separator_token = 0, 2
    return {
        "args": args,
        "model": model,
        "optimizer_history": [
            {
                "criterion_name": "",
                "optimizer_name": "",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True}},
        "last_optimizer_state": None,
    }
