"""Opens a file of rows by its ending."""

import os

from tupe_fairseq.rows.conll_rows import ConllRows
from tupe_fairseq.rows.delimited import DelimitedRows, comma_separated, tab_separated
from tupe_fairseq.rows.json_rows import JsonRows
from tupe_fairseq.rows.row_file import RowFile
from tupe_fairseq.rows.text_rows import TextRows

_COMPRESSED = (".gz", ".xz", ".bz2")
_DELIMITED = {".tsv": tab_separated, ".csv": comma_separated}
_JSON = (".jsonl", ".ndjson")
#: the kinds of files; before .gz, .xz or .bz2, which all but parquet may end in
ENDINGS = (*_DELIMITED, *_JSON, ".conll", ".txt", ".parquet")


def open_rows(path: str, header: bool = True) -> RowFile:
    """Open a file of rows and find its columns.

    Args:
        path (str): .tsv, .csv, .jsonl, .ndjson, .conll or .txt (a text in each line), plain or
            compressed (.gz, .xz, .bz2); or .parquet.
        header (bool): whether the first row of .tsv and .csv has the names of the columns.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it has another ending, is empty or not what its name says, or names two
            columns alike; in one line, with file and row.
        MissingPackage: if it is parquet and pyarrow is not installed.
    """
    name = path.lower()
    ending = os.path.splitext(name)[1]
    if ending in _COMPRESSED:
        ending = os.path.splitext(name[: -len(ending)])[1]
    if ending in _DELIMITED:
        return DelimitedRows(path, _DELIMITED[ending], header)
    if ending in _JSON:
        return JsonRows(path)
    if ending == ".conll":
        return ConllRows(path)
    if ending == ".txt":
        return TextRows(path)
    if name.endswith(".parquet"):
        # pyarrow is an extra
        from tupe_fairseq.rows.parquet_rows import ParquetRows

        return ParquetRows(path)
    raise ValueError(
        f"{path} has no ending that says what it is; rename it to end in one of "
        f"{', '.join(ENDINGS)} (all but .parquet also followed by {', '.join(_COMPRESSED)})"
    )
