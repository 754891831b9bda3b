"""Names the extra of pyproject.toml that brings a package which is not installed."""

import importlib.abc
import importlib.util
import sys
from typing import List

#: each package that this one imports beyond torch -> the extra that brings it
EXTRA_OF = {
    "fairseq": "fairseq",
    "fairseq_cli": "fairseq",
    "omegaconf": "fairseq",
    "yaml": "fairseq",
    "numpy": "data",
    "scipy": "data",
    "sentence_splitter": "data",
    "sentencepiece": "data",
    "seqeval": "data",
    "sklearn": "data",
    "tqdm": "data",
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "regex": "fastbpe",
    "sacremoses": "fastbpe",
    "subword_nmt": "fastbpe",
    "protobuf": "hf",
    "safetensors": "hf",
    "tokenizers": "hf",
    "transformers": "hf",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
}
#: fairseq cannot be built for this Python or later ones
FIRST_WITHOUT_FAIRSEQ = (3, 13)


# what runs between an import statement and the last finder
_MACHINERY = ("importlib", "importlib._bootstrap", "tupe_fairseq.register")


class MissingPackage(ModuleNotFoundError):
    """Says what to install.

    Args:
        packages (str): what cannot be imported, each one of ``EXTRA_OF``.
    """

    def __init__(self, *packages: str):
        extras = ",".join(sorted({EXTRA_OF[package] for package in packages}))
        absent = f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} not installed"
        advice = f"pip install 'tupe_fairseq[{extras}]' (in a clone: pip install '.[{extras}]')"
        if "fairseq" in extras.split(",") and sys.version_info >= FIRST_WITHOUT_FAIRSEQ:
            advice += "; fairseq runs on Python 3.10 to 3.12 only"
        super().__init__(f"{absent}; {advice}", name=packages[0])


def missing(*packages: str) -> List[str]:
    """Those of the packages that are not installed; nothing is imported."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def name_missing_packages() -> None:
    """From now on, what this package imports and is not there raises :class:`MissingPackage`."""
    if not any(isinstance(finder, _FoundByNobody) for finder in sys.meta_path):
        sys.meta_path.append(_FoundByNobody())


class _FoundByNobody(importlib.abc.MetaPathFinder):
    """The last finder, which Python asks for what the others have not found."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname in EXTRA_OF and _importing_package().split(".")[0] == __package__:
            raise MissingPackage(fullname)
        return None


def _importing_package() -> str:
    """The package of the file whose import statement is running."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") in _MACHINERY and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals.get("__package__") or ""
