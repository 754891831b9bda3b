"""Whether the short comparison (short.sh) came out as it should; ends with 1 if it did not.

python examples/results/check_short.py short-data/compared/results.json
"""

import json
import sys

#: bits per masked piece that tupe --rel-pos may have at its end, and must be below learned
MOST, APART = 7.5, 0.15


def main(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)["summary"]
    # a run that diverged has no final loss
    losses = {row["scheme"]: row["final_loss"]["mean"] for row in summary if row["final_loss"]}
    learned, tupe = losses.get("learned"), losses.get("tupe --rel-pos")
    print(f"learned {learned} bits, tupe --rel-pos {tupe} bits")
    if learned is None or tupe is None:
        print("a run diverged, or is missing; see results.md")
        return 1
    if tupe > MOST:
        print(f"tupe --rel-pos has not left the plateau: more than {MOST} bits")
        return 1
    if learned - tupe < APART:
        print(f"tupe --rel-pos is not {APART} bits below learned")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
