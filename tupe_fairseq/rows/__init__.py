"""Files of rows as they come, for tasks of one's own.

``open_rows`` opens a file by its ending as a ``row_file``: ``delimited`` (.tsv, .csv),
``json_rows`` (.jsonl), ``parquet_rows`` (.parquet) or ``conll_rows`` (.conll);
``standard_input`` is one, too.  ``decoded_lines``
and ``row_values`` serve several of them.  ``guessed_columns`` finds text and label by the names of
the columns; ``row_writer`` writes rows.
"""
