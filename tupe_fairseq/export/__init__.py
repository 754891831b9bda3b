"""Model folders for transformers, sentence-transformers and onnxruntime."""
