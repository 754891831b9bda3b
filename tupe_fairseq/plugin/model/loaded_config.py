"""fairseq's config of a model that is loaded, made of its options without Hydra.

fairseq's own way, ``convert_namespace_to_omegaconf``, lets Hydra read every option as a line of
its grammar, which takes most of the time of loading, prints some forty lines of warnings, and
clears what a program around it does with Hydra.
"""

from argparse import Namespace
from typing import Any, Dict

from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import (
    _set_legacy_defaults,
    omegaconf_no_object_check,
    overwrite_args_by_name,
)
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf


def loaded_config(options: Dict[str, Any]) -> DictConfig:
    """What ``convert_namespace_to_omegaconf`` makes of the same options.

    One thing differs: what an option takes over from another (``${common.fp16}``) is the other's
    value, where Hydra is told True.

    Args:
        options (dict): flat, as argparse gives them, with ``arch`` of tupe_roberta and a ``task``
            that fairseq or the plugin describe by a dataclass.
    Raises:
        LookupError, TypeError, ValueError: whatever OmegaConf says of a value that does not fit.
    """
    config = OmegaConf.structured(FairseqConfig())
    OmegaConf.set_struct(config, False)
    described = {name: registry["dataclass_registry"] for name, registry in REGISTRIES.items()}
    described["task"] = TASK_DATACLASS_REGISTRY
    for name, dataclasses in described.items():
        chosen = options.get(name)
        config[name] = None
        if chosen in dataclasses:
            config[name] = OmegaConf.structured(dataclasses[chosen])
            OmegaConf.set_struct(config[name], False)
            config[name]._name = chosen
    config.model = None
    overwrite_args_by_name(config, {k: v for k, v in options.items() if k not in described})
    # interpolations are resolved once, as Hydra does
    config = OmegaConf.create(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    with omegaconf_no_object_check():
        # fairseq's RoBERTa has no dataclass
        config.model = Namespace(**options)
        _set_legacy_defaults(config.model, ARCH_MODEL_REGISTRY[options["arch"]])
        config.model._name = options["arch"]
    OmegaConf.set_struct(config, True)
    return config
