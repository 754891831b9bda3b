"""tupe-export: a folder for transformers, sentence-transformers and onnxruntime."""

import logging

from tupe_fairseq.checkpoint.options import ExportOptions as Options


def main(options: Options) -> None:
    from tupe_fairseq.export import export_model

    export_model(options)
    text = "wrote %s; write the license into its README.md"
    logging.getLogger("tupe-export").info(text, options.output_dir)
