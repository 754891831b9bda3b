"""The encoder's layers, called as transformers asks for it."""

from torch import Tensor

from tupe_fairseq.encoder_stack import EncoderStack


class TupeStack(EncoderStack):
    """An :class:`EncoderStack` that follows ``config._attn_implementation`` at every call.

    With ``gradient_checkpointing``, which transformers sets, each layer is computed again in the
    backward pass.
    """

    gradient_checkpointing = False

    def call_layer(self, layer, x, *inputs) -> Tensor:
        if layer.self_attn.attn_impl != self.config.attn_impl:
            layer.self_attn.attn_impl = self.config.attn_impl
        if self.gradient_checkpointing and self.training:
            # by position: checkpointing with use_reentrant gives other arguments no gradient
            return self._gradient_checkpointing_func(layer.__call__, x, *inputs)
        return super().call_layer(layer, x, *inputs)
