"""The encoder as fairseq's RoBERTa expects it: from token ids, with fairseq's wrappers."""

import logging
from typing import Dict, List, Optional

from fairseq.distributed import fsdp_wrap
from fairseq.models.roberta.model import RobertaEncoder
from fairseq.modules import LayerDropModuleList
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from tupe_fairseq.attention import Documents, Padding
from tupe_fairseq.checkpoint.contents import vocabulary_version
from tupe_fairseq.config import TupeConfig
from tupe_fairseq.encoder import TupeEncoder

logger = logging.getLogger(__name__)


class TupeSentenceEncoder(TupeEncoder):
    """A :class:`TupeEncoder` with its word embedding.

    Args:
        config (TupeConfig): the options.
        embed_tokens (nn.Embedding): the word embedding; its ``padding_idx`` marks padding.
        document_start (int, optional): the token id that begins another document within a
            sequence, to be kept apart from those before; None if a sequence is one.
        wrap_layer, layer_list (callable): as :class:`TupeEncoder`.
    Shape:
        src_tokens (B, L), or token_embeddings (B, L, D) instead -> dict of lists:
        ``encoder_out`` [(L, B, D)], ``encoder_states`` (L, B, D) each, if asked for.
    Raises:
        ValueError: as :class:`TupeEncoder`; among others if a sequence begins with padding:
            position 0 would not be ``<s>``.
        ValueError: on loading, if the checkpoint has another number of symbols or positions.
    """

    def __init__(
        self,
        config: TupeConfig,
        embed_tokens: nn.Embedding,
        document_start: Optional[int] = None,
        **hooks,
    ):
        super().__init__(config, **hooks)
        self.embed_tokens = embed_tokens
        self.document_start = document_start

    def forward(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
    ) -> Dict[str, List[Tensor]]:
        """The hidden states of a batch, as fairseq's RoBERTa takes them.

        Args:
            src_tokens (Tensor): token ids; ``<s>`` is at index 0, padding on the right.
            return_all_hiddens (bool): also give ``encoder_states``.
            token_embeddings (Tensor, optional): used in place of the tokens' own; ``src_tokens``
                then only tell what is padding, and where documents begin.
        Shape:
            src_tokens (B, L), token_embeddings (B, L, D) -> as the class says.
        Raises:
            ValueError: as :class:`TupeEncoder`.
        """
        mask = src_tokens.eq(self.embed_tokens.padding_idx)
        starts = None if self.document_start is None else src_tokens.eq(self.document_start)
        if token_embeddings is not None:
            out = super().forward(token_embeddings, mask, return_all_hiddens, starts)
        else:
            whole = Padding(mask, self.config.unpad) if starts is None else None
            padding = whole or Documents(starts, mask)
            # packed first: the embedding of padding need not be looked up
            tokens = padding.pack(src_tokens) if padding.packed else src_tokens
            out = self.encode(self.embed_tokens(tokens), padding, return_all_hiddens)
        x, hiddens = out if return_all_hiddens else (out, [])
        # B x L x D -> L x B x D
        return {
            "encoder_out": [x.transpose(0, 1)],
            "encoder_states": [hidden.transpose(0, 1) for hidden in hiddens],
        }

    def check_whole(self, state_dict, prefix=""):
        """As :class:`TupeEncoder`'s; says so if it is stock RoBERTa's."""
        if any(key.startswith(prefix + "embed_positions.") for key in state_dict):
            raise ValueError(
                "the checkpoint adds learned positions to its input, as fairseq's stock roberta "
                "does; tupe-convert makes a tupe_roberta checkpoint of it, with "
                "--position-encoding learned"
            )
        super().check_whole(state_dict, prefix)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        saved = state_dict.get(prefix + "embed_tokens.weight")
        if saved is not None and saved.size(0) != self.embed_tokens.num_embeddings:
            raise ValueError(
                f"the checkpoint's word embedding has {saved.size(0)} rows, but this "
                f"model's dictionary has {self.embed_tokens.num_embeddings} symbols (built-in ones "
                "and <mask> included); use the dict.txt that the checkpoint was trained with"
            )
        theirs = self.position and self.position.max_positions_in(
            state_dict, prefix + "position_bias."
        )
        if theirs not in (None, self.config.max_positions):
            raise ValueError(
                f"max_positions is {theirs} in the checkpoint but {self.config.max_positions} "
                f"in this model; pass --max-positions {theirs} (sentence_prediction's own default "
                "is 512)"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


class TupeRobertaEncoder(RobertaEncoder):
    """fairseq's RoBERTa encoder (embedding, LM head) around a :class:`TupeSentenceEncoder`.

    Raises:
        ValueError: on loading, if the checkpoint's vocabulary is different but of the same size.
    """

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        # A buffer, as position_version is: shapes do not tell two
        # vocabularies of one size apart.
        self.register_buffer("vocabulary_version", vocabulary_version(dictionary.symbols))

    def build_encoder(self, args, dictionary, embed_tokens):
        def wrap_layer(layer):
            # as fairseq's own encoder: a checkpointed layer is always worth sharding
            if args.checkpoint_activations:
                layer = checkpoint_wrapper(layer, offload_to_cpu=args.offload_activations)
                return fsdp_wrap(layer, min_num_params=0)
            return fsdp_wrap(layer, min_num_params=args.min_params_to_wrap)

        def layer_list(layers):
            if args.encoder_layerdrop > 0:
                return LayerDropModuleList(args.encoder_layerdrop, layers)
            return nn.ModuleList(layers)

        config = TupeConfig.from_roberta_options(args)
        self.padding_idx = embed_tokens.padding_idx
        self.unpad = config.unpad
        return TupeSentenceEncoder(
            config,
            embed_tokens,
            dictionary.bos() if args.isolate_documents else None,
            wrap_layer=wrap_layer,
            layer_list=layer_list,
        )

    def forward(
        self,
        src_tokens,
        features_only=False,
        return_all_hiddens=False,
        masked_tokens=None,
        **unused,
    ):
        """As RoBERTa's; with ``--unpad`` the LM head also leaves padding out (zeros there)."""
        if features_only or masked_tokens is not None or not self.unpad:
            return super().forward(src_tokens, features_only, return_all_hiddens, masked_tokens)
        features, extra = self.extract_features(src_tokens, return_all_hiddens)
        real = src_tokens.ne(self.padding_idx)
        of_real = self.output_layer(features, masked_tokens=real)
        logits = of_real.new_zeros(*src_tokens.shape, of_real.size(-1))
        logits[real] = of_real
        return logits, extra

    def check_whole(self, state_dict, prefix=""):
        """As :class:`TupeSentenceEncoder`'s; a vocabulary that is not recorded is taken for ours.

        Half precision cannot hold the record: it is lost if somebody casts the whole state dict.
        """
        self.sentence_encoder.check_whole(state_dict, prefix + "sentence_encoder.")
        saved = state_dict.get(prefix + "vocabulary_version")
        if saved is None or saved.is_floating_point():
            logger.warning(
                "the checkpoint does not record its vocabulary: make sure that "
                "dict.txt is the one it was trained with"
            )
            state_dict[prefix + "vocabulary_version"] = self.vocabulary_version

    def _load_from_state_dict(self, state_dict, prefix, *args):
        saved = state_dict.get(prefix + "vocabulary_version")
        embedding = state_dict.get(prefix + "sentence_encoder.embed_tokens.weight")
        own_size = self.sentence_encoder.embed_tokens.num_embeddings
        if embedding is None or embedding.size(0) != own_size:
            pass  # the sentence encoder refuses it with the reason
        elif saved is not None and saved.tolist() != self.vocabulary_version.tolist():
            raise ValueError(
                "the checkpoint was trained with a different vocabulary of the same size; use "
                "its own dict.txt, and data made with it"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)
