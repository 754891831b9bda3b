"""Writes train.txt and valid.txt: the prose in the manuals of seven Python packages.

    python examples/arena/text.py arena-data/text

The source archives are fetched from PyPI and checked by their SHA-256, so the text is the same
everywhere. Each paragraph is kept once; all of a file goes to either train or valid.
"""

import argparse
import hashlib
import io
import os
import runpy
import sys
import tarfile
import urllib.request
from pathlib import Path

BUILD_CORPUS = Path(__file__).parents[2] / "scripts" / "build_corpus.py"
FILES = "https://files.pythonhosted.org/packages/"
ARCHIVES = """
4c/d3/b0dae3b5e6412227ec4387cf39110be3432c53886d2927c78b5f6976f1cb/Django-5.0.6.tar.gz
ff1b61005004e476e0aeea47c7f79b85864c70124030e95146315396f1e7951f
36/d0/0137ebcf0dc230c2e82a621b3af755b8788a2a9dd6fd1b8cd6d5e7f6b00d/SQLAlchemy-2.0.30.tar.gz
2b1708916730f4830bc69d6f49d37f7698b5bd7530aca7f04f785f8849e95255
8a/9c/cf0bce2cc1c8971bf56629d8f180e4ca35612c7e79e6e432e785261a8be4/celery-5.4.0.tar.gz
504a19140e8d3029d5acad88330c541d4c3f64c789d85f94756762d8bca7e706
1f/87/a02caebf7c6912596cc612af8910eb858db9582b382b4dfe7663e57674e0/buildbot-3.11.3.tar.gz
a9c2024ac8dc80eacb1bccc7071d1e4954a25c301e1cf1f8ae845923d4d94e49
e5/57/3485a1a3dff51bfd691962768b14310dae452431754bfc091250be50dd29/sympy-1.12.tar.gz
ebf595c8dac3e0fdc4152c51878b498396ec7f30e7a914d6071e674d49420fb8
f2/1f/5524416a64c030fbe18caeba079e7176836b281bf9eb50b79efdf8015063/scrapy-2.11.2.tar.gz
dfbd565384fc3fffeba121f5a3a2d0899ac1f756d41432ca0879933fbfb3401d
0c/4c/b561478a1ccb91e9b02965cb999d2281894d43e68c0bf3777d023af15f11/pylint-3.2.2.tar.gz
d068ca1dfd735fb92a07d33cb8f288adc0f6bc1287a139ca2425366f7cbe38f8
"""


def documents():
    """Yields (path, text) of the archives' text files."""
    words = ARCHIVES.split()
    for path, expected in zip(words[::2], words[1::2]):
        with urllib.request.urlopen(FILES + path, timeout=60) as answer:
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != expected:
            sys.exit(f"text.py: {FILES + path} is not the file that it was")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = {member.name: member for member in archive if member.isfile()}
            for name in sorted(members):
                if name.endswith((".txt", ".rst", ".md")):
                    file = archive.extractfile(members[name])
                    yield name, file.read().decode("utf-8", "replace")
        print(os.path.basename(path), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output_dir", metavar="DIR", help="folder for train.txt and valid.txt")
    args = parser.parse_args()
    runpy.run_path(str(BUILD_CORPUS))["write_corpus"](documents(), args.output_dir)
