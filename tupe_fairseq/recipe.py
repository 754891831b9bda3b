"""The optimizer of trainings, as flags of fairseq-train.

For scripts, ``python -m tupe_fairseq.recipe [OPTIMIZER]`` prints those of a pre-training.

The paper's betas, for pre-training and fine-tuning, are (0.9, 0.999), also in
examples/pretraining/config/tupe_r_base.yaml. Our small pre-trainings, which the pages' losses are
of, have RoBERTa's, (0.9, 0.98).
"""

import sys

_OTHERS = ("--adam-eps", "1e-6", "--weight-decay", "0.01", "--clip-norm", "1.0")
PRE_TRAINING = ("--optimizer", "adam", "--adam-betas", "(0.9,0.98)", *_OTHERS)
FINE_TUNING = ("--optimizer", "adam", "--adam-betas", "(0.9,0.999)", *_OTHERS)

if __name__ == "__main__":
    optimizer = sys.argv[1:] or PRE_TRAINING[1:2]
    sys.stdout.write(" ".join(("--optimizer", *optimizer, *PRE_TRAINING[2:])) + "\n")
