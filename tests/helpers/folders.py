"""Model folders for transformers with random weights, and what their models must compute."""

import json
from typing import Dict, NamedTuple, Optional

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from helpers.tensors import normal
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.export.bundle import bundle
from tupe_fairseq.modules.tupe_encoder_layer import ACTIVATIONS
from tupe_fairseq.position import POSITION_OPTIONS

PAD, MASK = 1, 4
VOCABULARY = 37
SEQUENCE_CLASSIFIER = "TupeForSequenceClassification"
AUTO_CLASSES = {
    "AutoConfig": "configuration_tupe.TupeConfig",
    "AutoModel": "modeling_tupe.TupeModel",
    "AutoModelForMaskedLM": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tupe.TupeForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tupe.TupeForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tupe.TupeForQuestionAnswering",
}


class Folder(NamedTuple):
    """What was written, and the same model without transformers.

    Args:
        encoder (TupeEncoder): the encoder.
        tensors (dict): all tensors by their names in the folder.
        config (dict): config.json.
    """

    encoder: TupeEncoder
    tensors: Dict[str, Tensor]
    config: Dict

    def hidden(self, ids: Tensor) -> Tensor:
        """(B, L) -> (B, L, D)."""
        embeddings = F.embedding(ids, self.tensors["tupe.embed_tokens.weight"])
        return self.encoder(embeddings, ids == PAD)

    def masked_lm(self, ids: Tensor) -> Tensor:
        """fairseq's RobertaLMHead: (B, L) -> (B, L, V)."""
        x = ACTIVATIONS[self.config["hidden_act"]](self._linear("lm_head.dense", ids))
        weight, bias = (self.tensors[f"lm_head.layer_norm.{name}"] for name in ("weight", "bias"))
        x = F.layer_norm(x, x.shape[-1:], weight, bias)
        embedding = self.tensors["tupe.embed_tokens.weight"]
        matrix = self.tensors.get("lm_head.decoder.weight", embedding)
        return F.linear(x, matrix) + self.tensors["lm_head.decoder.bias"]

    def classification(self, ids: Tensor) -> Tensor:
        """fairseq's RobertaClassificationHead: (B, L) -> (B, labels)."""
        x = self.hidden(ids)
        if self.config.get("classifier_pooling") == "mean":
            # one row at a time, without its padding
            x = torch.stack([row[of != PAD].mean(dim=0) for row, of in zip(x, ids)])
        else:
            x = x[:, 0]
        weight, bias = (self.tensors[f"classifier.dense.{name}"] for name in ("weight", "bias"))
        x = F.linear(x, weight, bias)
        x = ACTIVATIONS[self.config["pooler_activation"]](x)
        weight, bias = (self.tensors[f"classifier.out_proj.{name}"] for name in ("weight", "bias"))
        return F.linear(x, weight, bias)

    def _linear(self, name: str, ids: Tensor) -> Tensor:
        weight, bias = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        return F.linear(self.hidden(ids), weight, bias)


def write_folder(
    path,
    config: TupeConfig,
    *,
    vocabulary: int = VOCABULARY,
    num_labels: Optional[int] = None,
    tied: bool = True,
    std: float = 0.2,
    **fields,
) -> Folder:
    """Write config.json, model.safetensors and the bundle, of a model with random weights.

    Args:
        path (Path): the folder; made if it is not there.
        config (TupeConfig): the encoder's options.
        vocabulary (int): number of symbols; 0 .. 3 are <s>, <pad>, </s>, <unk>, 4 is <mask>.
        num_labels (int, optional): with a classification head of so many labels.
        tied (bool): whether the LM head has the word embedding's matrix.
        std (float): of all parameters.
        fields: more fields of config.json.
    """
    dim = config.embed_dim
    encoder = normal(TupeEncoder(config), std).eval()
    words = normal(nn.Embedding(vocabulary, dim, PAD), std).weight.detach()
    words[PAD] = 0
    state = {"tupe.embed_tokens.weight": words}
    for name, tensor in encoder.state_dict().items():
        if name != "position_version":
            state[f"tupe.encoder.{name}"] = tensor
    shapes = {
        "lm_head.dense.weight": (dim, dim),
        "lm_head.dense.bias": (dim,),
        "lm_head.layer_norm.weight": (dim,),
        "lm_head.layer_norm.bias": (dim,),
        "lm_head.decoder.bias": (vocabulary,),
    }
    if not tied:
        shapes["lm_head.decoder.weight"] = (vocabulary, dim)
    if num_labels is not None:
        shapes["classifier.dense.weight"] = (dim, dim)
        shapes["classifier.dense.bias"] = (dim,)
        shapes["classifier.out_proj.weight"] = (num_labels, dim)
        shapes["classifier.out_proj.bias"] = (num_labels,)
    state.update({name: std * torch.randn(shape) for name, shape in shapes.items()})
    written = {
        "model_type": "tupe",
        "architectures": ["TupeForMaskedLM" if num_labels is None else SEQUENCE_CLASSIFIER],
        "auto_map": AUTO_CLASSES,
        "vocab_size": vocabulary,
        "hidden_size": dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.ffn_embed_dim,
        "max_position_embeddings": config.max_positions,
        "hidden_act": config.activation_fn,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "classifier_dropout": 0.0,
        "pooler_activation": "tanh",
        "normalize_before": config.normalize_before,
        "position_encoding": config.position_encoding,
        **{name: getattr(config, name) for name in POSITION_OPTIONS},
        "bos_token_id": 0,
        "pad_token_id": PAD,
        "eos_token_id": 2,
        "mask_token_id": MASK,
        "tie_word_embeddings": tied,
    }
    if num_labels is not None:
        written["id2label"] = {str(n): f"LABEL_{n}" for n in range(num_labels)}
        written["label2id"] = {f"LABEL_{n}": n for n in range(num_labels)}
    written.update(fields)
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(written, indent=2))
    for name, text in bundle().items():
        (path / name).write_text(text, encoding="utf-8")
    save_file(
        {name: tensor.contiguous() for name, tensor in state.items()},
        str(path / "model.safetensors"),
        {"format": "pt"},
    )
    return Folder(encoder, state, written)
