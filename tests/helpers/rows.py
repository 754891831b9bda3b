"""Files of rows, as users write them."""

import csv
import json


def write_csv(path, rows):
    """The first row has the names of the columns."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_json_lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def read_json_lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
