"""What our own commands wrote, and read again: steps, reports, results, curves, predictions."""

import random
from collections.abc import Iterator
from pathlib import Path

from case import SAME, Case, replaced
from damage import json_fields, no_such_json, thinned

KIND = "state file"
_COMPARED = "out/tupe_roberta_tiny/learned-seed1"
# scene, file, reader, how many of the changed fields
_JSON: tuple[tuple[str, str, str, int], ...] = (
    ("compared", f"{_COMPARED}/result.json", "compare again", 36),
    ("compared", "out/steps.json", "compare again", 26),
    ("compared", "out/results.json", "compare again", 8),
    ("prepared", "out/steps.json", "prepare-pretrain again", 36),
    ("prepared", "out/report.json", "prepare-pretrain again", 12),
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
