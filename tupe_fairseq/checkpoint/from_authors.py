"""Names and options of the TUPE authors' code, https://github.com/guolinke/TUPE."""

from typing import Any

from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import ENCODER

NAME = "the TUPE authors' code"
#: their Dictionary has these after fairseq's four special tokens, but dict.txt does not list them
HIDDEN_SYMBOLS = ("<file>", "<email>", "<url>")
#: options that would change the model, each with the only value that is TUPE
FIXED = {"embedding_normalize": True, "encoder_layers_to_keep": None, "encoder_layerdrop": 0.0}
#: options whose defaults there are not ours
DEFAULTS: dict[str, Any] = {}

# in the encoder: a prefix of their names, and the one that replaces it; the first match counts
_NAMES = (
    ("emb_layer_norm.", "layernorm_embedding."),
    ("emb_out_layer_norm.", "layer_norm."),
    ("pos", "position_bias.untied_absolute.pos"),
    ("relative_attention_bias.", "position_bias.relative.relative_attention_bias."),
)


def rename_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The authors' state dict under our names."""
    model = {}
    for name, tensor in tensors.items():
        name = name.replace("decoder.", "encoder.", 1) if name.startswith("decoder.") else name
        for prefix, own in _NAMES:
            if name.startswith(ENCODER + prefix):
                name = name.replace(prefix, own, 1).replace("_linear.", "_proj.")
                break
        model[name] = tensor
    return model


def position_options(saved: dict[str, Any]) -> dict[str, Any]:
    """Our options of the position encoding, with the defaults of the authors' code."""
    if not saved.get("rel_pos", False):
        return {"position_encoding": "tupe", "rel_pos": False}
    return {
        "position_encoding": "tupe",
        "rel_pos": True,
        "rel_pos_buckets": saved.get("rel_pos_bins", 32),
        "max_rel_pos": saved.get("max_rel_pos", 128),
    }
