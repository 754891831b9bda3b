"""The texts that are most like a query, by the cosine of the vectors that tupe-encode wrote.

    tupe-encode checkpoint_best.pt texts.txt --output-file texts.npy
    tupe-encode checkpoint_best.pt queries.txt --output-file queries.npy
    python examples/tasks/search.py texts.txt texts.npy queries.txt queries.npy [NEAREST]

The mean of all vectors is subtracted first: otherwise all cosines of a pre-trained model are
near 1.
"""

import sys

import numpy as np

from tupe_fairseq.data.text_files import read_lines


def main(texts, text_vectors, queries, query_vectors, nearest="3"):
    lines, query_lines = map(read_lines, (texts, queries))
    vectors, sought = np.load(text_vectors), np.load(query_vectors)
    if len(lines) != len(vectors) or len(query_lines) != len(sought):
        raise SystemExit("a file does not have as many lines as vectors")
    mean = vectors.mean(axis=0)
    vectors, sought = vectors - mean, sought - mean
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    sought /= np.linalg.norm(sought, axis=1, keepdims=True).clip(1e-12)
    for query, vector in zip(query_lines, sought):
        print(query)
        cosines = vectors @ vector
        for place in np.argsort(-cosines, kind="stable")[: int(nearest)]:
            print(f"  {cosines[place]:.3f}  {lines[place]}")


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
