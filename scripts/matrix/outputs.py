"""What a loaded model makes of fixed sentences, and how far apart two such results are."""

from typing import Dict

import numpy as np
import torch
from trained_models import CLASSIFIER, HEAD

SENTENCES = ["The cat likes the house.", "No fish has never met two apples.", "Every bird sees."]


def outputs(hub, model: str) -> Dict[str, np.ndarray]:
    """Features, logits and predictions; token numbers, where the model has its vocabulary.

    Args:
        hub (RobertaHubInterface): the loaded model.
        model (str): which of the models it is.
    """
    hub.eval()
    # beyond the vocabulary's own symbols; one sentence is padded
    tokens = torch.tensor([[0, 9, 14, 5, 30, 22, 2], [0, 11, 8, 2, 1, 1, 1]])
    found = {}
    with torch.no_grad():
        found["features"] = hub.extract_features(tokens)[tokens != 1]
        if model == CLASSIFIER:
            found["logits"] = hub.predict(HEAD, tokens, return_logits=True)
            found["predictions"] = found["logits"].argmax(-1)
        else:
            found["logits"] = hub.model(tokens)[0][tokens != 1]
            found["predictions"] = found["logits"].topk(3).indices
        if getattr(hub, "bpe", None) is not None:
            encoded = [hub.encode(sentence) for sentence in SENTENCES]
            found["tokens"] = torch.cat(encoded)
            found["features of text"] = torch.cat([hub.extract_features(t)[0] for t in encoded])
    return {name: tensor.numpy() for name, tensor in found.items()}


def difference(found: Dict[str, np.ndarray], expected: Dict[str, np.ndarray]) -> float:
    """The largest difference of all results, each relative to its largest number.

    Raises:
        AssertionError: where results that are whole numbers differ, or one has no counterpart.
    """
    largest = 0.0
    for name, ours in found.items():
        theirs = expected[name]
        assert ours.shape == theirs.shape, f"{name}: {ours.shape}, not {theirs.shape}"
        if ours.dtype.kind == "i":
            assert np.array_equal(ours, theirs), f"{name} differ: {ours} is not {theirs}"
        else:
            assert np.isfinite(ours).all(), f"{name} are not finite"
            largest = max(largest, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
    return largest
