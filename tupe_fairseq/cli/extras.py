"""Which extra of pyproject.toml brings what a command needs beyond torch."""

import importlib.util
import sys

_EXTRAS = {
    "fairseq": "fairseq fairseq_cli omegaconf",
    "data": "numpy scipy sentence_splitter sentencepiece seqeval sklearn tqdm",
    "plot": "matplotlib",
    "parquet": "pyarrow",
    "fastbpe": "regex sacremoses subword_nmt",
    "hf": "jinja2 protobuf safetensors tokenizers transformers",
    "onnx": "onnx onnxruntime onnxscript",
}
EXTRA_OF = {package: extra for extra, names in _EXTRAS.items() for package in names.split()}
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
