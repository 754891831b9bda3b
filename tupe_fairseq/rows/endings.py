"""What kind of rows a file has, by the ending of its name."""

import os

_COMPRESSED = (".gz", ".xz", ".bz2")
#: columns between signs, to which a first row of names belongs
DELIMITED = (".tsv", ".csv")
#: an object in each line
JSON = (".jsonl", ".ndjson")
#: the kinds of files; before .gz, .xz or .bz2, which all but parquet may end in
ENDINGS = (*DELIMITED, *JSON, ".conll", ".txt", ".parquet")


def ending_of(path: str) -> str:
    """The one of :data:`ENDINGS` that a name has, in lower case.

    Raises:
        ValueError: if it has none of them.
    """
    name = path.lower()
    whole, ending = os.path.splitext(name)
    if ending in _COMPRESSED:
        ending = os.path.splitext(whole)[1]
    if ending not in ENDINGS or (ending == ".parquet" and not name.endswith(ending)):
        raise ValueError(
            f"{path} has no ending that says what it is; rename it to end in one of "
            f"{', '.join(ENDINGS)} (all but .parquet also followed by {', '.join(_COMPRESSED)})"
        )
    return ending
