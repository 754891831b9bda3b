"""What is learned from labelled texts, and the data folder for it.

``task_description`` says what is learned, by which ``labels`` and ``metrics``.  ``prepare_folder``
writes the folder from ``task_rows``, and ``task_report`` reads its report.json.  ``read_own_task``
makes the rows of one's own files: ``own_columns`` opens them, ``own_rows`` reads them,
``row_checks`` refuses what cannot be learned, and ``own_splits`` divides them.
"""
