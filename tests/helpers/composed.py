"""What fairseq-train does first, done once before forks of the process: its flags become a config.

Hydra's grammar remembers what it has read, so a fork composes its own in half the time.
"""

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

_WORDS = [
    "data", "--arch", "roberta_base", "--task", "masked_lm", "--criterion", "masked_lm",
    "--optimizer", "adam", "--lr-scheduler", "polynomial_decay", "--total-num-update", "5",
]  # fmt: skip

convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), _WORDS))
