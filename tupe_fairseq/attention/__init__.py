"""Self-attention with a position bias, in several implementations with the same results.

``eager`` is the reference, ``sdpa`` is torch's fused attention, ``chunked`` is for training on the
CPU, ``triton`` is for GPUs. The first two also take encodings that read the words. Each is a
subclass of ``Attention``.
"""
