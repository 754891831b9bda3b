"""Times training steps of the TUPE authors' code, in a separate process.

    python authors_worker.py CHECKOUT BATCH SEQ_LEN THREADS DEVICE

Their package is called fairseq, too, so it cannot share a process with ours.  Says "ready", then
answers each line of its input with the seconds of one step.
"""

import argparse
import sys
import time
import types

import numpy as np
import torch
import torch.nn.functional as F

VOCAB_SIZE = 50265


def build(seq_len):
    """Their base size, TUPE-R, with the flags of their recipe."""
    from fairseq.data import Dictionary
    from fairseq.models.bert.model import BertModel, bert_base_architecture

    dictionary = Dictionary()
    while len(dictionary) < VOCAB_SIZE:
        dictionary.add_symbol(f"w{len(dictionary)}")
    args = argparse.Namespace(
        arch="bert_base",
        max_positions=seq_len,
        tokens_per_sample=seq_len,
        rel_pos=True,
        embedding_normalize=True,
    )
    bert_base_architecture(args)
    return BertModel.build_model(args, types.SimpleNamespace(source_dictionary=dictionary))


def main():
    checkout, *numbers, device = sys.argv[1:]
    batch, seq_len, threads = map(int, numbers)
    sys.path.insert(0, checkout)
    np.float = float  # their spelling, which numpy dropped
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    device = torch.device(device)
    model = build(seq_len).to(device).train()
    if device.type == "cuda":
        model = model.bfloat16()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    tokens = torch.randint(8, VOCAB_SIZE, (batch, seq_len), device=device)
    masked = torch.rand(batch, seq_len, device=device) < 0.15
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        logits, _ = model(tokens, masked_tokens=masked)
        loss = F.cross_entropy(logits.float(), tokens[masked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
