"""Model folders of the transformers library, for tupe-convert."""

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

from case import REFUSED, SAME, VALUE, Case, replaced
from damage import DEEP, cuts, flips, json_fields, no_such_file, no_such_json, thinned

KIND = "exported folder"
_READER = ("convert a folder",)


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """config.json, model.safetensors, dict.txt, tokenizer.json, and the list of shards."""
    folder = scenes / "folder" / "folder"
    config = (folder / "config.json").read_bytes()
    for name, content, right in no_such_json(config):
        yield _case("config.json", name, content, right)
    for name, content, right in thinned(list(json_fields(config, draw, 2)), 60, draw):
        # a size that fits the tensors, or none that matters: another model
        yield _case("config.json", name, content, VALUE if right == SAME else right)
    for value in ("evil", "../evil", "__import__('os').mkdir('CODE-RAN')", "roberta", "bert"):
        for field in (
            "model_type", "hidden_act", "position_encoding", "pooler_activation",
            "classifier_pooling",
        ):  # fmt: skip
            changed = {**json.loads(config), field: value}
            yield _case("config.json", f"{field} is {value}", json.dumps(changed).encode(), VALUE)
    yield from _weights((folder / "model.safetensors").read_bytes(), draw)
    yield from _others(config)


def _case(place: str, name: str, content: bytes, right: str) -> Case:
    change = replaced(f"folder/{place}", content)
    return Case(KIND, f"{place}: {name}", "folder", change, _READER, right)


def _weights(sound: bytes, draw: random.Random) -> Iterator[Case]:
    place, (length,) = "model.safetensors", struct.unpack_from("<Q", sound)
    header = json.loads(sound[8 : 8 + length])
    data = sound[8 + length :]
    first = next(name for name in header if name != "__metadata__")

    def with_header(changed) -> bytes:
        text = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + data

    for name, content in thinned(list(cuts(sound, (0, 8, 8 + length, len(sound) - 1))), 9, draw):
        yield _case(place, name, content, REFUSED)
    for name, content, right in no_such_file(sound):
        yield _case(place, name, content, REFUSED if right == SAME else right)
    for name, content in flips(sound, 14, draw):
        yield _case(place, name, content, VALUE)  # it has no checksums: a weight is another one
    for name, content in flips(sound[: 8 + length], 14, draw):
        yield _case(place, f"in the header, {name}", content + data, VALUE)
    for value in (0, 1, 2**31, 2**63, 2**64 - 1, length + 1, length - 1, len(sound)):
        content = struct.pack("<Q", value) + sound[8:]
        yield _case(place, f"a header of {value} bytes", content, REFUSED)
    changes: dict[str, dict] = {
        "offsets exchanged": {"data_offsets": header[first]["data_offsets"][::-1]},
        "negative offsets": {"data_offsets": [-4, 0]},
        "offsets of 2^62": {"data_offsets": [2**62, 2**62 + 4]},
        "a shape of 2^40": {"shape": [2**40, 2**40]},
        "a negative shape": {"shape": [-1, -1]},
        "a shape of floats": {"shape": [1.5]},
        "a shape of 100 dimensions": {"shape": [1] * 100},
        "no dtype": {"dtype": None},
        "another dtype": {"dtype": "F64"},
        "whole numbers": {"dtype": "I32"},
        "a dtype of no kind": {"dtype": "X\x1b[2J" * 1000},
        "offsets of truth": {"data_offsets": [True, False]},
    }
    for name, change in changes.items():
        changed = {**header, first: {**header[first], **change}}
        yield _case(place, name, with_header(changed), REFUSED)
    same = {**header, first: header[[name for name in header if name != "__metadata__"][1]]}
    yield _case(place, "two tensors in one place", with_header(same), REFUSED)
    yield _case(place, "a tensor gone", with_header({
        name: value for name, value in header.items() if name != first}), REFUSED)  # fmt: skip
    more = {**header, "../../above": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}
    yield _case(place, "a name above", with_header(more), VALUE)
    yield _case(place, "a deep header", with_header(DEEP.encode()), REFUSED)
    text = json.dumps(header)
    twice = ("{" + text[1:-1] + "," + text[1:]).encode()
    yield _case(place, "names twice", with_header(twice), REFUSED)
    yield _case(place, "a pickle", b"\x80\x02cos\nmkdir\nX\x08\0\0\0CODE-RAN\x85R.", REFUSED)


def _others(config: bytes) -> Iterator[Case]:
    """What lies beside the two, and names files that are elsewhere."""
    place = "model.safetensors.index.json"
    for name, shard in (("above", "../theirs"), ("elsewhere", "/etc/passwd"), ("itself", place),
                        ("a pickle", "pytorch_model.bin"), ("nothing", "absent.safetensors"),
                        ("a pipe", "/dev/stdin")):  # fmt: skip

        def change(folder: Path, shard=shard) -> None:
            (folder / "folder" / "model.safetensors").rename(folder / "kept")
            index = {"metadata": {}, "weight_map": {"tupe.embed_tokens.weight": shard}}
            (folder / "folder" / place).write_text(json.dumps(index))

        yield Case(KIND, f"{place}: {name}", "folder", change, _READER, REFUSED)
    for name, content in (("null", b"null"), ("a list", b"[]"), ("deep", DEEP.encode()),
                          ("numbers", b'{"weight_map": {"a": 1}}')):  # fmt: skip

        def change_index(folder: Path, content=content) -> None:
            (folder / "folder" / "model.safetensors").unlink()
            (folder / "folder" / place).write_bytes(content)

        yield Case(KIND, f"{place}: {name}", "folder", change_index, _READER, REFUSED)

    def pickled(folder: Path) -> None:
        (folder / "folder" / "model.safetensors").unlink()
        content = b"\x80\x02cos\nmkdir\nX\x08\0\0\0CODE-RAN\x85R."
        (folder / "folder" / "pytorch_model.bin").write_bytes(content)

    yield Case(KIND, "pytorch_model.bin that calls", "folder", pickled, _READER, REFUSED)

    def coded(folder: Path) -> None:
        for name in ("modeling_tupe.py", "configuration_tupe.py", "__init__.py"):
            (folder / "folder" / name).write_text("import os\nos.mkdir('CODE-RAN')\n")

    yield Case(KIND, "Python files that act", "folder", coded, _READER, SAME)
    for name, vocabulary in (
        ("null", None), ("a list", []), ("numbers", {"model": {"vocab": [1, 2]}}),
        ("a text", {"model": {"vocab": "x"}}), ("ids of text", {"model": {"vocab": {"a": "b"}}}),
        ("ids twice", {"model": {"vocab": {"a": 1, "b": 1}}}),
        ("ids of 2^40", {"model": {"vocab": {"a": 2**40}}}),
        ("negative ids", {"model": {"vocab": {"a": -1}}}),
        ("added numbers", {"model": {"vocab": []}, "added_tokens": [1]}),
    ):  # fmt: skip

        def without_dictionary(folder: Path, vocabulary=vocabulary) -> None:
            (folder / "folder" / "dict.txt").unlink()
            (folder / "folder" / "tokenizer.json").write_text(json.dumps(vocabulary))

        yield Case(KIND, f"tokenizer.json: {name}", "folder", without_dictionary, _READER, REFUSED)
