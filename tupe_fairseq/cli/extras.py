"""Which extra of pyproject.toml installs what a command needs beyond torch."""

import importlib.util
import sys

_EXTRAS = {
    "fairseq": "fairseq fairseq_cli omegaconf",
    "data": "numpy scipy sentencepiece seqeval sklearn tqdm",
    "plot": "matplotlib",
    "parquet": "pyarrow",
    "hf": "jinja2 protobuf safetensors tokenizers transformers",
    "onnx": "onnx onnxruntime onnxscript",
}
EXTRA_OF = {package: extra for extra, names in _EXTRAS.items() for package in names.split()}
#: installs fairseq; the environment may have another build of it
FAIRSEQ = "pip install ve-fairseq==0.12.3"
if sys.version_info < (3, 11):
    FAIRSEQ = "pip install fairseq==0.12.2 'numpy<1.24'"
elif sys.version_info >= (3, 13):  # no wheel: compiled here, which takes minutes and a C++ compiler
    FAIRSEQ = (
        "pip install torch numpy cython 'setuptools<82' && "
        "pip install --no-build-isolation fairseq-fixed==0.12.3.1"
    )


def missing(*packages: str) -> list[str]:
    """The packages that are not installed, found without importing any."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def advice(*packages: str) -> str:
    """How to install missing packages, all of which are in ``EXTRA_OF``."""
    extras = ",".join(sorted({EXTRA_OF[package] for package in packages}))
    text = (
        f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} not installed; pip install "
        f"'tupe_fairseq[{extras}]' (in a clone: pip install '.[{extras}]')"
    )
    if "fairseq" in extras.split(",") and sys.version_info >= (3, 13):
        text += f"; this does not install fairseq, which needs a C++ compiler here: {FAIRSEQ}"
    return text


def explain(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error, with the extra that installs the package if there is one."""
    package = str(error.name).partition(".")[0].replace("google", "protobuf")
    if package not in EXTRA_OF:
        return error
    return ModuleNotFoundError(advice(package), name=error.name)
