"""tupe-doctor: check an installation."""

import logging
import os
import platform
import subprocess
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec

from tupe_fairseq import flags
from tupe_fairseq.cli.extras import FAIRSEQ, advice, missing
from tupe_fairseq.version import __version__

# without these, training stops at the first batch
_COMPILED = ("fairseq.data.data_utils_fast", "fairseq.data.token_block_utils_fast")
_FIX = "in the clone: pip install . (without -e)"


class Doubt(Exception):
    """A warning: something works only in part, or may be intended."""


@dataclass
class Options(flags.Options):
    """Check Python, torch, fairseq, the plugin and the devices. The exit code is 0, 1 after a
    warning, or 2 if something is wrong.

    example: tupe-doctor
    """


def main(options: Options) -> None:
    """Print one line per check and end with the exit code."""
    warnings.simplefilter("ignore")  # fairseq and torch warn on import
    logging.getLogger().setLevel(logging.ERROR)
    checks = [check_python, check_torch, check_fairseq, check_plugin, check_devices]
    worst = 0
    for check in checks:
        name = check.__name__.removeprefix("check_")
        try:
            print(f"ok       {name}: {check()}", flush=True)
        except Doubt as doubt:
            worst = max(worst, 1)
            print(f"warning  {name}: {doubt}", flush=True)
        except Exception as error:  # a broken installation can raise anything
            worst = 2
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            print(f"wrong    {name}: {kind}{' '.join(str(error).split())[:500]}", flush=True)
    sys.exit(worst)


def check_python() -> str:
    python = f"{platform.python_version()}, {platform.platform(terse=True)}, {sys.executable}"
    if sys.version_info >= (3, 14):
        raise Doubt(f"{python}; tested versions are 3.10 to 3.13")
    return python


def check_torch() -> str:
    import numpy
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):
        raise ValueError(f"{torch.__version__} is too old; pip install 'torch>=2.10'")
    return f"{torch.__version__}, numpy {numpy.__version__}"


def check_fairseq() -> str:
    """Only one fairseq is installed, it can be imported, and it is compiled."""
    if missing("fairseq"):
        raise Doubt(f"{advice('fairseq')}; training needs it")
    names = sorted(set(packages_distributions().get("fairseq", [])))
    if len(names) > 1:
        fix = f"pip uninstall -y {' '.join(names)} && {FAIRSEQ}"
        raise ValueError(f"{' and '.join(names)} have overwritten each other's files; {fix}")
    try:
        import fairseq
    except Exception as error:
        raise ValueError(f"cannot be imported ({error}); {FAIRSEQ}") from error
    absent = [name for name in _COMPILED if find_spec(name) is None]
    if absent:
        fix = "in fairseq's clone, run python setup.py build_ext --inplace"
        raise ValueError(f"{' and '.join(absent)} are not compiled; {fix}")
    versions = [f"{name} {version(name)}" for name in (*names, "omegaconf", "hydra-core")]
    return f"{', '.join(versions)}, in {os.path.dirname(fairseq.__file__)}"


def check_plugin() -> str:
    """fairseq knows our models; Python and --user-dir find the package from this folder."""
    from tupe_fairseq import __path__, register

    installed = f"{__version__} in {__path__[0]}"
    test = "from tupe_fairseq import TupeConfig"
    if subprocess.run([sys.executable, "-c", test], capture_output=True).returncode:
        hidden = "in this folder another tupe_fairseq hides the package from Python"
        raise ValueError(f"{installed}, but {hidden}: {_FIX}")
    if missing("fairseq"):
        raise Doubt(f"{installed}; without fairseq there is nothing to register with")
    import fairseq
    from fairseq.models import ARCH_MODEL_REGISTRY

    register()  # as --user-dir does
    archs = [name for name in ARCH_MODEL_REGISTRY if name.startswith("tupe_roberta")]
    beside_fairseq = os.path.join(os.path.dirname(fairseq.__path__[0]), "tupe_fairseq")
    if not os.path.exists("tupe_fairseq") and not os.path.exists(beside_fairseq):
        raise Doubt(f"{installed}; here fairseq-train needs --user-dir {__path__[0]}, or {_FIX}")
    return f"{installed}, {len(archs)} architectures registered"


def check_devices() -> str:
    """A forward and a backward pass on each device, with the attention that ``auto`` chooses."""
    import torch

    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.options import TupeConfig

    if os.path.exists("/dev/nvidia0") and not torch.cuda.is_available():
        build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPUs"
        raise Doubt(f"this machine has a GPU that torch, built for {build}, cannot use")
    size, devices = 256, []
    for device in ["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]:
        config = TupeConfig(128, num_heads=2, num_layers=1, ffn_embed_dim=64, max_positions=size)
        dtype = torch.float32 if device == "cpu" else torch.float16
        encoder = TupeEncoder(config).to(device, dtype).train()
        out = encoder(torch.randn(2, size, 128, device=device, dtype=dtype))
        out.float().square().mean().backward()
        gradients = [p.grad for p in encoder.parameters() if p.grad is not None]
        if not all(x.isfinite().all() for x in (out, *gradients)):
            raise ValueError(f"a training step on {device} gives NaN or inf; try --attn-impl eager")
        name = "cpu" if device == "cpu" else f"{device} ({torch.cuda.get_device_name(device)})"
        devices.append(f"{name} trains with {encoder.attention_name(size)} attention")
    return ", ".join(devices)
