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
elif sys.version_info >= (3, 13):  # no wheel, so the extra fairseq installs none
    FAIRSEQ = (
        "pip install torch numpy cython 'setuptools<82' && CFLAGS=-O0 CXXFLAGS=-O0 "
        "pip install --no-build-isolation fairseq-fixed==0.12.3.1 (needs a C++ compiler)"
    )


def missing(*packages: str) -> list[str]:
    """The packages that are not installed, found without importing any."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def need(*packages: str) -> None:
    """Refuse, before any work, if a package is missing."""
    for package in missing(*packages):
        raise ModuleNotFoundError(name=package)


def advice(*packages: str) -> str:
    """How to install missing packages, all of which are in ``EXTRA_OF``."""
    extras, ways = {EXTRA_OF[package] for package in packages}, []
    if "fairseq" in extras and sys.version_info >= (3, 13):
        extras, ways = extras - {"fairseq"}, [FAIRSEQ]
    if extras:
        listed = ",".join(sorted(extras))
        ways.append(f"pip install 'tupe_fairseq[{listed}]' (in a clone: pip install '.[{listed}]')")
    are = "is" if len(packages) == 1 else "are"
    return f"{', '.join(packages)} {are} not installed; {' and '.join(ways)}"


def explain(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error, with the extra that installs the package if there is one."""
    package = str(error.name).partition(".")[0].replace("google", "protobuf")
    if package not in EXTRA_OF:
        return error
    return ModuleNotFoundError(advice(package), name=error.name)
