"""The lines of a file of rows, none of which may be lost."""

from collections.abc import Iterator

from tupe_fairseq.text.reading import TextFile

#: a longer line is refused
LINE_BYTES = 32 << 20


def decoded_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, without what ends it; only a line feed does.

    Args:
        path (str): plain, .gz, .xz or .bz2.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, or a line is not UTF-8 or longer than 32 MiB.
    """
    number = 0
    for block in TextFile(path, LINE_BYTES).blocks():
        for line in block.split(b"\n")[:-1]:
            number += 1
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number} is not UTF-8; convert the file first: iconv -t UTF-8"
                ) from error
            yield number, text.lstrip("\ufeff") if number == 1 else text
