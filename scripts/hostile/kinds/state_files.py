"""What our own commands wrote, and read again: steps, reports, results, curves, predictions."""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

from case import SAME, VALUE, Case, replaced
from damage import cuts, flips, json_fields, no_such_file, no_such_json, thinned

KIND = "state file"
_RUN = "runs/RTE/lr2e-5-seed1"
# scene, file, reader, how many of the changed fields
_JSON: tuple[tuple[str, str, str, int], ...] = (
    ("finished", f"{_RUN}/result.json", "finetune again", 30),
    ("finished", "runs/RTE/steps.json", "finetune again", 26),
    ("finished", "runs/RTE/results.json", "finetune again", 16),
    ("finished", "runs/results.json", "finetune again", 8),
    ("finished", "RTE/report.json", "finetune --dry-run", 30),
    ("prepared", "out/steps.json", "prepare-pretrain again", 36),
    ("prepared", "out/report.json", "prepare-pretrain again", 12),
    ("interrupted", "out.csv.parts/steps.json", "predict again", 30),
    ("fine-tuned", "model/report.json", "predict", 36),
    ("pretrained", "data/report.json", "encode", 12),
    ("text", "data/report.json", "prepare-pretrain", 6),
    ("official", "data/report.json", "prepare-glue", 8),
)


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """JSON of each command, broken, and with each field of another type; then what is no JSON."""
    for scene, place, reader, count in _JSON:
        sound = (scenes / scene / place).read_bytes()
        broken = [(name, content, SAME) for name, content, _ in no_such_json(sound)]
        fields = thinned(list(json_fields(sound, draw, 3)), count, draw)
        for name, content, right in [*broken, *fields]:
            change = replaced(place, content)
            yield Case(KIND, f"{place}: {name}", scene, change, (reader,), right)
    yield from _predictions(scenes, draw)
    yield from _parts(scenes, draw)


def _predictions(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """numpy's files, whose header is Python, and which may hold pickles."""
    place = f"{_RUN}/predictions-test.npy"
    sound = (scenes / "finished" / place).read_bytes()
    odd = [
        *((name, content, SAME) for name, content, _ in no_such_file(sound)),
        *((name, content, SAME) for name, content in cuts(sound, (6, 10, 128))),
        *((name, content, VALUE) for name, content in flips(sound, 12, draw)),
        ("a header of 64 KB", sound[:8] + b"\xff\xff" + sound[10:], SAME),
        ("objects", sound.replace(b"'<i8'", b"'|O' "), SAME),
        ("a shape of 2^40", sound.replace(b"(3,)", b"(2**40,)"), SAME),
        ("a shape of 10^12", sound.replace(b"(3,), }     ", b"(999999999999,)}"), SAME),
        ("a header that calls", sound.replace(b"'<i8'", b"open('CODE-RAN','w')"), SAME),
        ("a class of -1", sound[:128] + struct.pack("<q", -1) + sound[136:], SAME),
        ("a class of 7", sound[:128] + struct.pack("<q", 7) + sound[136:], SAME),
    ]
    for name, content, right in odd:
        change = replaced(place, content)
        yield Case(KIND, f"{place}: {name}", "finished", change, ("finetune again",), right)
    place = f"{_RUN}/checkpoint_best.pt"
    for name, content in (("empty", b""), ("a text", b"x" * 100)):

        def change_both(folder: Path, content=content, place=place) -> None:
            (folder / _RUN / "predictions-test.npy").unlink()
            (folder / place).write_bytes(content)

        yield Case(KIND, f"{place}: {name}", "finished", change_both, ("finetune again",), SAME)


def _parts(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """What an interrupted prediction has written; more than is recorded is cut off."""
    place = "out.csv.parts/content"
    sound = (scenes / "interrupted" / place).read_bytes()
    for name, content, _ in no_such_file(sound):
        # the part of it that the record counts is not looked at again
        right = SAME if name in ("twice", "something behind it") else VALUE
        change = replaced(place, content)
        yield Case(KIND, f"{place}: {name}", "interrupted", change, ("predict again",), right)
    for name, content in thinned(list(cuts(sound, (0, 10, len(sound) - 1))), 5, draw):
        change = replaced(place, content)
        # done anew, in other batches, whose rounding is another
        yield Case(KIND, f"{place}: {name}", "interrupted", change, ("predict again",), VALUE)
