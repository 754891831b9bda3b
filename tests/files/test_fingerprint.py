"""The hash of a file depends on all of it."""

import hashlib

from tupe_fairseq.files.fingerprint import file_sha256


def test_every_part_counts(tmp_path):
    """Also what lies behind the part that is read first."""
    content = bytes(range(256)) * 10_000  # 2.4 MiB
    found = set()
    for changed in (None, 0, 1 << 20, (2 << 20) + 5, len(content) - 1):
        other = bytearray(content)
        if changed is not None:
            other[changed] ^= 1
        (tmp_path / "file").write_bytes(other)
        found.add(file_sha256(str(tmp_path / "file")))
        assert hashlib.sha256(other).hexdigest() in found
    assert len(found) == 5
