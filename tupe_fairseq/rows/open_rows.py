"""Opens a file of rows by its ending."""

from tupe_fairseq.rows.conll_rows import ConllRows
from tupe_fairseq.rows.delimited import DelimitedRows, comma_separated, tab_separated
from tupe_fairseq.rows.endings import DELIMITED, JSON, ending_of
from tupe_fairseq.rows.json_rows import JsonRows
from tupe_fairseq.rows.row_file import RowFile
from tupe_fairseq.rows.text_rows import TextRows

_SEPARATED = {".tsv": tab_separated, ".csv": comma_separated}


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
        ModuleNotFoundError: if it is parquet and pyarrow is not installed.
    """
    ending = ending_of(path)
    if ending in DELIMITED:
        return DelimitedRows(path, _SEPARATED[ending], header)
    if ending in JSON:
        return JsonRows(path)
    if ending == ".conll":
        return ConllRows(path)
    if ending == ".txt":
        return TextRows(path)
    # pyarrow is an extra
    from tupe_fairseq.rows.parquet_rows import ParquetRows

    return ParquetRows(path)
