"""JSON files of our own that something happened to: refused in one line that names the file."""

import pytest

from tupe_fairseq.files.atomic import read_json


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "is not a JSON file"),
        (b"{", "is not a JSON file"),
        (b'{"a": "\xff"}', "is not a JSON file"),
        ('{"a": 1}'.encode("utf-16"), "is not a JSON file"),
        (b"\xef\xbb\xbf{}", "is not a JSON file"),
        (b"[" * 200_000, "is nested too deep"),
        (b'{"a":' * 200_000, "is nested too deep"),
    ],
    ids=["empty", "cut", "no-utf8", "utf-16", "byte-order-mark", "deep-lists", "deep-objects"],
)
def test_not_json(content, reason, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as error:
        read_json(str(path))
    assert str(path) in str(error.value) and "\n" not in str(error.value)
