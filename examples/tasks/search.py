"""The texts that are most like a query, by the cosine of the vectors that tupe-encode wrote.

    tupe-encode checkpoint_best.pt texts.txt --output-file texts.npy
    tupe-encode checkpoint_best.pt queries.txt --output-file queries.npy
    python examples/tasks/search.py texts.txt texts.npy queries.txt queries.npy

Prints the nearest texts of each query with their cosines.  What all vectors have in common, their
mean, is taken off first: without it all cosines of a pre-trained model are near 1.
"""

import argparse
import heapq

import numpy as np

from tupe_fairseq.data.columns import choose_columns
from tupe_fairseq.data.rows import read_rows

BLOCK = 65_536


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("texts", help="a file that tupe-encode has read")
    add("text_vectors", metavar="texts.npy", help="what it wrote")
    add("queries", help="another such file, or the same")
    add("query_vectors", metavar="queries.npy")
    add("--text", default="text", metavar="COL", help="column of the text; default %(default)s")
    add("--nearest", type=int, default=3, metavar="N", help="texts of a query; default %(default)s")
    options = parser.parse_args(arguments)
    if options.nearest < 1:
        parser.error(f"--nearest ({options.nearest}) must be at least 1")
    return options


def texts_of(path, column):
    """The texts of a file, in order."""
    name = choose_columns(path, column).text
    return [row[name] for _, row in read_rows(path, [name])]


def unit(vectors, mean):
    """Vectors of length 1, without the mean."""
    vectors = vectors - mean
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def nearest(queries, vectors, count):
    """For each query the greatest cosines and the rows of the vectors, in bounded memory.

    Args:
        queries (np.ndarray): (Q, D).
        vectors (np.ndarray): (N, D), of any number: only a block of them is in memory.
        count (int): how many.
    """
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    queries = unit(queries, mean)
    found = [[] for _ in queries]
    for start in range(0, len(vectors), BLOCK):
        cosines = queries @ unit(vectors[start : start + BLOCK], mean).T
        for query, row in enumerate(cosines):
            best = np.argsort(-row, kind="stable")[:count]
            pairs = [(float(row[place]), start + int(place)) for place in best]
            found[query] = heapq.nlargest(count, found[query] + pairs, key=lambda pair: pair[0])
    return found


def main(arguments=None):
    options = parse(arguments)
    vectors = np.load(options.text_vectors, mmap_mode="r")
    queries = np.load(options.query_vectors)
    texts, asked = (texts_of(path, options.text) for path in (options.texts, options.queries))
    for path, rows, found in (
        (options.text_vectors, texts, vectors),
        (options.query_vectors, asked, queries),
    ):
        if len(rows) != len(found):
            raise SystemExit(f"{path} has {len(found)} vectors for {len(rows)} texts")
    for query, places in zip(asked, nearest(queries, vectors, options.nearest)):
        print(query)
        for cosine, place in places:
            print(f"  {cosine:.3f}  {texts[place]}")


if __name__ == "__main__":
    main()
