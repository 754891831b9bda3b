"""A checkpoint of ``learned`` positions as the RoBERTa that transformers itself has.

Its table of positions begins with two rows that no token reads, 0 .. padding_idx; query, key and
value projections are apart; there is one type of token, whose vector is zero.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.export.folder_config import NAMES, Head, head_fields, token_ids
from tupe_fairseq.files.names import CLS
from tupe_fairseq.options import POSITION_OPTIONS

_UNUSED_ROWS = 2
_IN_PROJ = re.compile(r"(.*\.attention\.self\.)in_proj_(weight|bias)")
# beginnings of names in a folder of ours -> in one of RoBERTa; the first match counts
_NAMES = (
    (r"tupe\.embed_tokens\.", "roberta.embeddings.word_embeddings."),
    (r"tupe\.encoder\.layernorm_embedding\.", "roberta.embeddings.LayerNorm."),
    (r"tupe\.encoder\.position_bias\.pos\.", "roberta.embeddings.position_embeddings."),
    (r"tupe\.encoder\.layers\.(\d+)\.self_attn\.out_proj\.",
     r"roberta.encoder.layer.\1.attention.output.dense."),
    (r"tupe\.encoder\.layers\.(\d+)\.self_attn_layer_norm\.",
     r"roberta.encoder.layer.\1.attention.output.LayerNorm."),
    (r"tupe\.encoder\.layers\.(\d+)\.self_attn\.", r"roberta.encoder.layer.\1.attention.self."),
    (r"tupe\.encoder\.layers\.(\d+)\.fc1\.", r"roberta.encoder.layer.\1.intermediate.dense."),
    (r"tupe\.encoder\.layers\.(\d+)\.fc2\.", r"roberta.encoder.layer.\1.output.dense."),
    (r"tupe\.encoder\.layers\.(\d+)\.final_layer_norm\.",
     r"roberta.encoder.layer.\1.output.LayerNorm."),
    (r"lm_head\.decoder\.bias", "lm_head.bias"),
    (r"(lm_head|classifier)\.", r"\1."),
)  # fmt: skip


def check_is_roberta(options: Any, head: Head | None) -> None:
    """Refuse what transformers' RoBERTa cannot compute.

    Args:
        options (Namespace or DictConfig): of a tupe_roberta model, presets applied.
        head (Head, optional): the classification head of the folder.
    Raises:
        ValueError: if there is something; the message names the first.
    """
    only: dict[str, Any] = {
        "position_encoding": "learned",
        **dict.fromkeys(POSITION_OPTIONS),
        "encoder_normalize_before": False,
        "activation_fn": "gelu",  # its LM head has no other
        "activation_dropout": 0,
    }
    if head is not None and not head.of_tokens:
        only.update(pooler_activation_fn="tanh", pooling=CLS)
    for name, value in only.items():
        given = getattr(options, name, None)
        if (given or None) != (value or None):
            flag = "--" + name.replace("_", "-")
            found = flag if given is True else f"{flag} {given}"
            wanted = f"only {value}" if value else "no such thing"
            raise ValueError(
                f"--as roberta: the checkpoint has {found}, and transformers' RoBERTa {wanted}; "
                "export it without --as roberta"
            )


def roberta_config(
    options: Any, symbols: Sequence[str], head: Head | None = None
) -> dict[str, Any]:
    """The content of config.json.

    Args:
        options (Namespace or DictConfig): of a tupe_roberta model, presets applied.
        symbols (sequence of str): those of fairseq's dictionary, ``<mask>`` included.
        head (Head, optional): the classification head that the folder has.
    """
    ours = (
        "activation_dropout", "classifier_pooling", "normalize_before", "position_encoding",
        "pooler_activation",
    )  # fmt: skip
    names = {
        name: option
        for name, option in NAMES.items()
        if name not in ours and name not in POSITION_OPTIONS
    }
    given = {name: getattr(options, option) for name, option in names.items()}
    given["max_position_embeddings"] += _UNUSED_ROWS
    ids = token_ids(symbols)
    del ids["mask_token_id"]
    kind = "RobertaForMaskedLM" if head is None else f"Roberta{head.suffix}"
    return {
        "architectures": [kind],
        "model_type": "roberta",
        "vocab_size": len(symbols),
        **given,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": not getattr(options, "untie_weights_roberta", False),
        "initializer_range": 0.02,
        **ids,
        **({} if head is None else head_fields(head)),
        "dtype": "float32",
    }


def roberta_tensors(tensors: dict[str, Tensor], head: Head | None = None) -> dict[str, Tensor]:
    """The tensors of model.safetensors; with a classification head without the LM head's.

    Args:
        tensors (dict): those of a folder of ours.
        head (Head, optional): the classification head that the folder has.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        renamed = _renamed(name)
        match = _IN_PROJ.fullmatch(renamed)
        if match:
            for part, rows in zip(("query", "key", "value"), tensor.chunk(3)):
                found[f"{match.group(1)}{part}.{match.group(2)}"] = rows.contiguous().clone()
        elif head is None or not name.startswith("lm_head."):
            found[renamed] = tensor
    table = "roberta.embeddings.position_embeddings.weight"
    width = found[table].size(1)
    found[table] = torch.cat([torch.zeros(_UNUSED_ROWS, width), found[table]])
    found["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, width)
    return found


def _renamed(name: str) -> str:
    for before, after in _NAMES:
        if re.match(before, name):
            return re.sub(f"^{before}", after, name)
    raise ValueError(f"--as roberta: transformers' RoBERTa has no place for the tensor {name}")
