"""From raw text to fairseq's data; ``pipeline`` calls the other files, in this order.

``settings`` and ``workspace`` (what is recorded, names of files), ``not_text`` (what is refused),
``reading`` and ``compressed`` (blocks of lines), ``treatment``, ``sentences`` and ``cleaning``
(clean lines), ``losses`` (what that dropped), ``deduplication``, ``splitting`` (train, valid, test,
shards), ``vocabulary`` (learning pieces), ``pieces``, ``piece_numbers`` and ``piece_encoder`` (text
to ids), ``mmap_writer`` and ``mmap_index`` (fairseq's files), ``data_report``.  ``documents`` and
``parallel`` serve several steps; ``pretrain_dir`` and ``to_pieces`` treat later texts like that of
pre-training.

``row_texts`` reads documents that are rows: ``json_texts``, or ``parquet_texts`` by way of
``parquet_file``.

``foreign_vocabulary`` is that of a converted checkpoint: ``listed_pieces`` are the words of its
``dictionary_file``, made by ``fast_bpe`` from the words of ``authors_text``, by ``gpt2_bpe``, or by
a SentencePiece model.

``found_vocabulary`` finds what belongs to a checkpoint; ``to_tokens`` makes ids of text with it.
"""
