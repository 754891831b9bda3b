"""fairseq's Transformer decoder with any position encoding and an exact key-value cache."""

import logging
import os
import re
from argparse import Namespace
from dataclasses import fields
from typing import Any

import torch
from fairseq.data import encoders
from fairseq.dataclass.configs import FairseqConfig
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.utils import import_user_module
from omegaconf import OmegaConf
from torch import Tensor

import tupe_fairseq
from tupe_fairseq.attention.base import make_mask, scores_dtype
from tupe_fairseq.checkpoint.checkpoint import check_finite, read
from tupe_fairseq.checkpoint.find import find_checkpoint
from tupe_fairseq.checkpoint.fit import fit
from tupe_fairseq.data.tokenizer import VOCABULARY
from tupe_fairseq.matrices import mark_matrices
from tupe_fairseq.models._fairseq_config import fairseq_dataclass, option_names
from tupe_fairseq.models.tupe_roberta import prepare_layers
from tupe_fairseq.modules.record import RecordsOptions
from tupe_fairseq.modules.tupe_decoder_layer import Context, TupeDecoderLayer, is_eager
from tupe_fairseq.options import PositionOptions, TupeConfig, flag, refuse_others
from tupe_fairseq.position import PositionEncoding, get_position_encoding
from tupe_fairseq.position.positions import Positions, as_tensor
from tupe_fairseq.position.tupe import UntiedAbsoluteBias

logger = logging.getLogger(__name__)
#: the options of decoders, which have no [CLS] to untie
OF_DECODERS = {
    x.name: x
    for x in fields(PositionOptions)
    if x.name not in ("tie_cls", "untie_cls", "position_each_layer", "one_way_heads")
}
DecoderOptions = fairseq_dataclass("DecoderOptions", OF_DECODERS)
#: fairseq's options that do not apply here
FIXED_OPTIONS = dict.fromkeys(
    "adaptive_input base_layers character_embeddings cross_self_attention decoder_layers_to_keep "
    "decoder_learned_pos decoder_xformers_att_config encoder_layerdrop encoder_layers_to_keep "
    "encoder_learned_pos encoder_xformers_att_config no_cross_attention offload_activations "
    "quant_noise_pq quant_noise_scalar scale_attn scale_fc scale_heads scale_resids "
    "tie_adaptive_proj tie_adaptive_weights".split(),
    False,
)
#: the names that a checkpoint may contain: fairseq builds whatever they name
FROM_FILES = {
    "arch": r"tupe_transformer\w*",
    "task": r"(tupe_)?(language_modeling|translation)",
}


def check_options(args) -> None:
    """Refuse options that would be ignored, and a string that fairseq would evaluate as code."""
    refuse_others(args, FIXED_OPTIONS, "tupe decoders")
    cutoff = getattr(args, "adaptive_softmax_cutoff", None) or ""
    if not re.fullmatch(r"[\d, ]*", str(cutoff).strip("[]()")):
        raise ValueError(f"--adaptive-softmax-cutoff ({cutoff}) must be numbers, such as 2000,8000")


def config_of(cfg, side: str) -> TupeConfig:
    """The config of a side's layers, "encoder" or "decoder", with their position encoding."""
    own, name = getattr(cfg, side), cfg.position_encoding
    other = getattr(cfg, "encoder_position_encoding", None) or name
    name, other = (name, other) if side == "decoder" else (other, name)
    given = {key: getattr(cfg, key, None) for key in OF_DECODERS}
    taken, for_other = (
        {*get_position_encoding(x).defaults(bool(given["rel_pos"]))} for x in (name, other)
    )
    options = {key: x for key, x in given.items() if x is not None and key not in for_other - taken}
    return TupeConfig(
        embed_dim=own.embed_dim,
        num_heads=own.attention_heads,
        num_layers=own.layers,
        ffn_embed_dim=own.ffn_embed_dim,
        max_positions=cfg.max_target_positions if side == "decoder" else cfg.max_source_positions,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout or cfg.relu_dropout or 0.0,
        activation_fn=str(cfg.activation_fn),
        normalize_before=own.normalize_before,
        **{**options, "position_encoding": name, "tie_cls": name == "tupe"},
    )


class TupeDecoder(RecordsOptions, TransformerDecoderBase):
    """fairseq's Transformer decoder whose self-attention takes a position encoding.

        x    = dropout(LN(sqrt(D) * words + position.embed)), LN only with --layernorm-embedding
        mask = position.bias, later tokens hidden, once for all layers and the whole batch
        x    = layer(x, mask) for each layer

    A step of incremental decoding computes one row of the bias. Cross-attention sees no positions.
    With ``cross_positions`` it sees untied ones, shared by all layers: for target t and source s it
    adds (p_t U_Q) . (p_s U_K) / sqrt(2 K) (Wang et al. 2022, https://arxiv.org/abs/2202.03052).
    """

    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn)
        self.config, encoding = (
            config_of(cfg, "decoder"),
            get_position_encoding(cfg.position_encoding),
        )
        is_shared = not encoding.per_layer
        self.position = encoding.from_config(self.config, causal=True) if is_shared else None
        self.cross_positions = None
        if not no_encoder_attn and cfg.cross_positions:
            dim, heads = cfg.decoder.embed_dim, cfg.decoder.attention_heads
            longest = max(cfg.max_source_positions, cfg.max_target_positions)
            self.cross_positions = UntiedAbsoluteBias(dim, heads, longest, untie_cls=False)
        self.register_record()
        mark_matrices(self.layers, self.position, self.cross_positions)
        prepare_layers(self.layers, cfg)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        config, name = config_of(cfg, "decoder"), cfg.position_encoding
        encoding = get_position_encoding(name)
        if encoding.uses("transform") and encoding.uses("content_bias"):
            raise ValueError(
                f"decoders do not take position encoding {name!r}: their cached keys are "
                "transformed, but its content_bias needs keys that are not"
            )
        source_dim = 0 if no_encoder_attn else cfg.encoder.embed_dim
        terms = 2 if source_dim and cfg.cross_positions else 1
        scaling = (terms * config.embed_dim // config.num_heads) ** -0.5
        return TupeDecoderLayer(config, encoding, source_dim, scaling)

    def extract_features(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        full_context_alignment=False,
        alignment_layer=None,
        alignment_heads=None,
    ):
        """As in fairseq; with an incremental state, only the features of the last token.

        Padding may be on the left or on the right. Shape: (B, T) -> (B, T, D) or (B, 1, D).
        """
        if full_context_alignment or alignment_layer is not None or alignment_heads is not None:
            raise ValueError("tupe decoders compute no alignments; drop the flags for alignment")
        tokens, length = prev_output_tokens, prev_output_tokens.size(1)
        if length == 0:
            raise ValueError(f"tokens are {tuple(tokens.shape)}: a sequence needs at least 1 token")
        if length > self.max_target_positions:
            raise ValueError(
                f"a sequence has {length} tokens, more than --max-target-positions "
                f"({self.max_target_positions}); raise it, or shorten the sequences"
            )
        padding = tokens.eq(self.padding_idx)
        if not bool(padding[:, 0].any()):
            padding = None  # no real token sees padding on the right
        keys: Positions = length
        if padding is not None:
            keys = ((~padding).cumsum(dim=1) - 1).clamp(min=0)
        queries = keys
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            queries = keys[:, -1:] if isinstance(keys, Tensor) else range(length - 1, length)

        x = self.embed_scale * self.embed_tokens(tokens)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if self.position is not None and (added := self.position.embed(queries)) is not None:
            x = x + added.to(x)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)

        mask, is_causal = self._mask(queries, keys, padding, x)
        precomputed = self._precompute(queries, length, x)
        past = Context(mask, self.position, (queries, keys), precomputed, is_causal)
        source, mask = self._source(encoder_out, queries, x)
        hiddens, cache = [x.transpose(0, 1)], None
        for number, layer in enumerate(self.layers):
            if incremental_state is not None:
                cache = incremental_state.setdefault(f"layer{number}", {})
            x = layer(x, past, source, Context(mask), cache)
            hiddens.append(x.transpose(0, 1))
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [None], "inner_states": hiddens}

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Reorder the rows for beam search, which drops some rows and repeats others."""
        for cache in incremental_state.values():
            cache.update({name: x.index_select(0, new_order) for name, x in cache.items()})

    def _mask(
        self, queries: Positions, keys: Positions, padding, x: Tensor
    ) -> tuple[Tensor | None, bool]:
        """The position bias with padding and later tokens hidden, (H or 1, Tq, Tk) or (B, ..).

        And whether attention has to hide later tokens by itself, because there is no mask.
        """
        length = x.size(1)
        bias = None if self.position is None else self.position(queries, keys)
        reads_words = get_position_encoding(self.config.position_encoding).uses("content_bias")
        needs_mask = bias is not None or padding is not None or reads_words or is_eager(x)
        hidden = None if padding is None else padding[:, None, None, :]
        if length > 1 and needs_mask:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            hidden = later if hidden is None else hidden | later
        return _make_mask(bias, hidden, x, reads_words), length > 1 and not needs_mask

    def _precompute(self, queries: Positions, length: int, x: Tensor) -> tuple[Tensor, ...]:
        """What all layers need to know of positions besides the mask: nothing or one tensor."""
        position = next(p for p in self.modules() if isinstance(p, PositionEncoding))
        if not position.uses("precompute"):
            return ()
        computed = position.precompute(as_tensor(queries, x.device).unsqueeze(-1), length)
        return () if computed is None else (computed,)

    def _source(self, encoder_out, queries: Positions, x: Tensor):
        """The encoder's output, (B, S, D), and the mask of cross-attention."""
        if encoder_out is None:
            return None, None
        source, cross = encoder_out["encoder_out"][0].transpose(0, 1), self.cross_positions
        padding = encoder_out["encoder_padding_mask"]
        hidden = padding[0][:, None, None, :] if padding and padding[0].any() else None
        bias = None if cross is None else cross(queries, source.size(1))
        return source, _make_mask(bias, hidden, x)


def _make_mask(
    bias: Tensor | None, hidden: Tensor | None, x: Tensor, reads_words: bool = False
) -> Tensor | None:
    """The mask of all layers, in the dtype of the scores to which it is added."""
    dtype = scores_dtype(x)
    if is_eager(x) or reads_words:
        dtype = torch.promote_types(dtype, torch.float32)
    return make_mask(None if bias is None else bias.to(x.device), hidden, dtype)


def decoder_flag(name: str) -> str:
    """The flag of a decoder's option."""
    is_length = name == "max_positions"
    return "--max-target-positions" if is_length else flag(name).replace("encoder", "decoder")


def read_decoder(path: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The options and the tensors of a decoder's checkpoint."""
    options, tensors, _ = read(path)
    check_finite(tensors, path)
    for key, pattern in FROM_FILES.items():
        if not re.fullmatch(pattern, str(options.get(key))):
            raise ValueError(f"{path} is refused: its {key} is {options.get(key)!r:.80}")
    return options, tensors


class DecoderModel:
    """What our models with a decoder share (a mixin): refuses checkpoints of other models."""

    def check_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Refuse weights of another model, even if they would load and compute something else."""
        fit(self, state_dict, "decoder.", decoder_flag)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        if strict:
            self.check_state_dict(state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """fairseq's hub interface, for ``sample`` and ``translate``; only loads our models."""
        from tupe_fairseq.inference import bpe, hub

        tupe_fairseq.register()
        folder, data = model_name_or_path, data_name_or_path
        if "user_dir" in kwargs:
            import_user_module(Namespace(user_dir=kwargs.pop("user_dir")))
        kwargs["data"] = os.path.abspath(os.path.join(folder, data)) if data[:1] == "." else data
        names = checkpoint_file.split(os.pathsep)
        paths = [find_checkpoint(os.path.join(folder, name)) for name in names]
        files, saved = bpe.file_options([folder]), [*map(read_decoder, paths)]
        if "sentencepiece_model" in files:
            kwargs.setdefault("bpe", "sentencepiece")
        others, options = dict(kwargs), saved[0][0]
        bpe.pop_options({x: others.pop(x, None) for x in ("bpe", "tokenizer")}, others, [folder])
        hub.check_overrides(others, options["task"], option_names(options["arch"]))
        models, task = [], None
        for path, (options, tensors) in zip(paths, saved):
            options = {**options, **files, **kwargs}
            model, task = hub.build(path, options, tensors, task)
            models.append(model)
        config = OmegaConf.structured(FairseqConfig())
        batches = {name: options[name] for name in config.dataset if name in options}
        config.dataset = OmegaConf.merge(config.dataset, batches)
        loaded, args = GeneratorHubInterface(config, task, models), Namespace(**options)
        loaded.bpe, loaded.tokenizer = encoders.build_bpe(args), encoders.build_tokenizer(args)
        if os.path.isfile(os.path.join(folder, VOCABULARY)):
            loaded.bpe = bpe.recorded_bpe([folder])
        elif loaded.bpe is None and any("\u2581" in x for x in task.target_dictionary.symbols):
            logger.warning(
                "texts must be given as tokens, and the output is tokens: %s has no "
                "sentencepiece.bpe.model; copy it there",
                folder,
            )
        return loaded
