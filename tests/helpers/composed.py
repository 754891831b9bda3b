"""What fairseq-train does first, done once before forks of the process: its flags become a config.

Hydra's grammar remembers what it has read, so a fork composes its own in less time.
"""

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

try:
    from helpers.hastened_hydra import hasten_hydra
except ImportError:  # in a server that is started as a file
    from hastened_hydra import hasten_hydra

_WORDS = [
    "data", "--arch", "roberta_base", "--task", "masked_lm", "--criterion", "masked_lm",
    "--optimizer", "adam", "--lr-scheduler", "polynomial_decay", "--total-num-update", "5",
]  # fmt: skip

hasten_hydra()
convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), _WORDS))
