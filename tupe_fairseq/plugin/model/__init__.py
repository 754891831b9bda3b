"""RoBERTa's encoder, flags, hub interface and TensorBoard pictures, as fairseq expects them."""
