"""Folders for transformers, sentence-transformers and onnxruntime, made of checkpoints."""
