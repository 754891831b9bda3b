"""Configs for fairseq-hydra-train; no code of theirs runs."""

import random
from collections.abc import Iterator
from pathlib import Path

from case import VALUE, Case, replaced
from damage import cuts, flips, thinned

KIND = "YAML"


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """Tags that call, other types, other encodings, cuts and bits."""
    sound = (scenes / "pretrained" / "tiny.yaml").read_bytes()
    odd = {
        "empty": b"",
        "a tag that calls": sound + b"\nx: !!python/object/apply:os.mkdir ['CODE-RAN']\n",
        "a tag of a name": sound + b"\nx: !!python/name:os.mkdir\n",
        "a target": sound + b"\nx: {_target_: os.mkdir, path: CODE-RAN}\n",
        "in UTF-16": sound.decode().encode("utf-16"),
        "a list": b"- 1\n- 2\n",
        "a number": b"7\n",
        "deep": b"[" * 3000,
        "a loop": sound + b"\nx: &a [*a]\n",
        "an environment variable": sound.replace(b"lr: [0.0015]", b"lr: ['${env:HOME}']"),
        "a rate of text": sound.replace(b"lr: [0.0015]", b"lr: ['1e-3; import os']"),
        "a position encoding of ours": sound.replace(b"tupe  #", b"../x  #"),
        "a number of buckets": sound.replace(b"rel_pos_buckets: 32", b"rel_pos_buckets: many"),
        "a user_dir": sound.replace(b"user_dir: ???", b"user_dir: evil"),
        **dict(flips(sound, 6, draw)),
        **dict(thinned(list(cuts(sound, range(0, len(sound), 211))), 3, draw)),
    }
    for name, content in odd.items():
        change = replaced("tiny.yaml", content)
        yield Case(KIND, name, "pretrained", change, ("fairseq-hydra-train",), VALUE)
