"""Model folders for transformers, sentence-transformers and onnxruntime."""

from tupe_fairseq.export.convert import convert_checkpoint as convert_checkpoint
from tupe_fairseq.export.write_folder import export_model as export_model
