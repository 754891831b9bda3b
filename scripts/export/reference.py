"""What the hub interface gives for real sentences, to compare an exported folder with."""

import random

import torch

from tupe_fairseq import TupeRobertaModel

PLACES = 16


def write_reference(path, folder, checkpoint, lines, count, head=None, ids_of=()):
    """Write the outputs of a model, sentence by sentence, without padding.

    The file is a dict: ``lines`` (strings, or pairs of them), ``ids`` (lists), ``offsets`` (N + 1)
    of the sentences in ``features`` (T, D); ``places``, tokens of each sentence, no more than 16,
    and ``logits`` (sum of their numbers, V) there, because all would be gigabytes; with a head
    ``classes`` (N, C); ``order``, how much the features change if the words stand in another
    order; ``texts`` and ``text_ids``, further lines with their ids only.

    Args:
        path (Path): the file to write.
        folder (Path): where the checkpoint and its vocabulary are.
        lines (iterable): sentences, or pairs of them; those that the model is too short for are
            left out.
        count (int): how many.
        head (str): the classification head, if there is one.
        ids_of (iterable of str): the further lines.
    """
    hub = TupeRobertaModel.from_pretrained(str(folder), checkpoint)
    hub.eval()
    longest = hub.model.encoder.sentence_encoder.config.max_positions
    kept, ids = [], []
    for line in lines:
        tokens = hub.encode(line) if isinstance(line, str) else hub.encode(*line)
        if 3 < len(tokens) <= longest:
            kept.append(line)
            ids.append(tokens.long())
        if len(kept) == count:
            break
    if len(kept) < count:
        raise SystemExit(f"only {len(kept)} of {count} sentences fit {folder}")
    features, places, logits, classes, order = [], [], [], [], 0.0
    with torch.no_grad():
        for tokens in ids:
            out = hub.extract_features(tokens)
            features.append(out[0])
            places.append(torch.linspace(0, len(tokens) - 1, PLACES).long().unique().tolist())
            logits.append(hub.model.encoder.output_layer(out[0, places[-1]]))
            if head is not None:
                classes.append(hub.predict(head, tokens, return_logits=True)[0])
            order = max(order, change_by_order(hub, tokens, out[0]))
    texts = list(ids_of)
    offsets = torch.tensor([0, *(len(tokens) for tokens in ids)]).cumsum(0)
    reference = {
        "lines": kept, "ids": [tokens.tolist() for tokens in ids], "offsets": offsets,
        "features": torch.cat(features), "places": places, "logits": torch.cat(logits),
        "classes": torch.stack(classes) if classes else None, "order": order,
        "texts": texts, "text_ids": [hub.encode(text).tolist() for text in texts],
    }  # fmt: skip
    torch.save(reference, path)
    print(
        f"{path.name}: {count} sentences of {offsets.diff().min()} to {offsets.diff().max()} tokens"
    )


def change_by_order(hub, tokens, features):
    """The largest change of a feature when the words between <s> and </s> are shuffled."""
    order = [0, *range(1, len(tokens) - 1), len(tokens) - 1]
    order[1:-1] = random.Random(1).sample(order[1:-1], len(order) - 2)
    return (hub.extract_features(tokens[order])[0] - features[order]).abs().max().item()
