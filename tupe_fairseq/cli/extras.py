"""Which extra of pyproject.toml brings what a command needs beyond torch."""

import importlib.util
import sys

EXTRA_OF = {
    "fairseq": "fairseq",
    "fairseq_cli": "fairseq",
    "omegaconf": "fairseq",
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
    "jinja2": "hf",
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


def missing(*packages: str) -> list[str]:
    """Those of the packages that are not installed; nothing is imported."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def advice(*packages: str) -> str:
    """What to install for packages that are missing, each one of ``EXTRA_OF``."""
    extras = ",".join(sorted({EXTRA_OF[package] for package in packages}))
    text = (
        f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} not installed; pip install "
        f"'tupe_fairseq[{extras}]' (in a clone: pip install '.[{extras}]')"
    )
    if "fairseq" in extras.split(",") and sys.version_info >= FIRST_WITHOUT_FAIRSEQ:
        text += "; fairseq runs on Python 3.10 to 3.12 only"
    return text
