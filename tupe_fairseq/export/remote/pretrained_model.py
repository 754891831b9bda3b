"""What all TUPE models of transformers share."""

from torch import nn
from transformers import PreTrainedModel

from tupe_fairseq.export.remote.attention_function import check_name
from tupe_fairseq.export.remote.configuration_tupe import TupeConfig
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention
from tupe_fairseq.position.encoding import PositionEncoding


class TupePreTrainedModel(PreTrainedModel):
    """Loading, saving and initialisation of TUPE models; see ``PreTrainedModel``.

    Raises:
        ValueError: if ``attn_implementation`` is unknown or would drop the positions.
    """

    config_class = TupeConfig
    base_model_prefix = "tupe"
    supports_gradient_checkpointing = True
    # its layers share a bias and a padding, which stay on one device
    _no_split_modules = ["TupeStack"]
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_flash_attn = False
    _supports_attention_backend = True

    def __init__(self, config: TupeConfig, *args, **kwargs):
        super().__init__(config, *args, **kwargs)
        check_name(config.attn_impl)

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        # transformers looks for a line of source; TupeStack asks the config at every call
        return True

    def _init_weights(self, module: nn.Module) -> None:
        """BERT's initialisation: N(0, ``initializer_range``), biases zero, the padding's row zero.

        Of a module's own parameters, not its children's.
        """
        std = self.config.initializer_range
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            is_loaded = getattr(module.weight, "_is_hf_initialized", False)
            if module.padding_idx is not None and not is_loaded:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, TupeMultiheadAttention):
            nn.init.normal_(module.in_proj_weight, std=std)
            nn.init.zeros_(module.in_proj_bias)
        elif isinstance(module, PositionEncoding):
            for parameter in module.parameters(recurse=False):
                nn.init.normal_(parameter, std=std)
