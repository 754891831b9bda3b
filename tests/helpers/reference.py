"""TUPE, slow and literal: loops over heads, tokens and entries, from the paper's equations.

It shares no code with the package.  Parameters come in as a dict of float64 tensors under the
names of the state dict; autograd differentiates the loops.
"""

import math

import torch


def bucket(relative_position, num_buckets, max_distance):
    """T5's bidirectional bucket of one distance."""
    half = num_buckets // 2
    exact = half // 2
    n = abs(relative_position)
    if n >= exact:
        steps = math.floor(
            math.log(n / exact) / math.log(max_distance / exact) * (half - exact) + 1e-9
        )
        n = min(half - 1, exact + steps)
    return n + (half if relative_position > 0 else 0)


def causal_bucket(distance, num_buckets, max_distance):
    """T5's bucket of a distance to an earlier key."""
    exact = num_buckets // 2
    if distance < exact:
        return distance
    steps = math.log(distance / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    return min(num_buckets - 1, exact + math.floor(steps + 1e-9))


def layer_norm(x, weight, bias):
    """LN of one vector."""
    mean = sum(x[d] for d in range(len(x))) / len(x)
    variance = sum((x[d] - mean) ** 2 for d in range(len(x))) / len(x)
    return torch.stack(
        [(x[d] - mean) / torch.sqrt(variance + 1e-5) * weight[d] + bias[d] for d in range(len(x))]
    )


def linear(x, weight, bias):
    """One vector through a linear map."""
    return torch.stack([(weight[o] * x).sum() + bias[o] for o in range(len(bias))])


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def head(x, h, num_heads):
    """The slice of a vector that belongs to head h."""
    size = len(x) // num_heads
    return x[h * size : (h + 1) * size]


def position_bias(p, seq_len, num_heads, *, rel_pos, num_buckets, max_distance, tie_cls):
    """A + R, entry by entry: Eqs. (7), (8), (9), (10) and (11)."""
    table = p["untied_absolute.pos.weight"]
    scaling = 1 / math.sqrt(2 * table.size(1) / num_heads)

    def score(query_row, key_row, h):
        norm = [p["untied_absolute.pos_ln." + n] for n in ("weight", "bias")]
        q, k = (
            linear(
                layer_norm(table[row], *norm),
                p[f"untied_absolute.pos_{name}_proj.weight"],
                p[f"untied_absolute.pos_{name}_proj.bias"],
            )
            for name, row in (("q", query_row), ("k", key_row))
        )
        return (head(q, h, num_heads) * head(k, h, num_heads)).sum() * scaling

    rows = []
    for h in range(num_heads):
        for i in range(seq_len):
            for j in range(seq_len):
                if not tie_cls and i == 0:
                    entry = score(0, 0, h)
                elif not tie_cls and j == 0:
                    entry = score(1, 1, h)
                else:
                    entry = score(i + 1, j + 1, h)
                if rel_pos:
                    if not tie_cls and i == 0:
                        row = num_buckets // 2
                    elif not tie_cls and j == 0:
                        row = num_buckets
                    else:
                        row = bucket(j - i, num_buckets, max_distance)
                    entry = entry + p["relative.relative_attention_bias.weight"][row, h]
                rows.append(entry)
    return torch.stack(rows).view(num_heads, seq_len, seq_len)


def attention(p, x, bias, num_heads, is_padding):
    """Self-attention of one sequence x (list of vectors) with a bias (H, L, L)."""
    dim = len(x[0])
    scaling = 1 / math.sqrt(2 * dim / num_heads)
    weight, shift = p["in_proj_weight"], p["in_proj_bias"]
    q, k, v = (
        [linear(t, weight[n * dim : (n + 1) * dim], shift[n * dim : (n + 1) * dim]) for t in x]
        for n in range(3)
    )
    out = []
    for i in range(len(x)):
        heads = []
        for h in range(num_heads):
            keys = [j for j in range(len(x)) if not is_padding[j]]
            scores = [
                (head(q[i], h, num_heads) * head(k[j], h, num_heads)).sum() * scaling
                + bias[h, i, j]
                for j in keys
            ]
            total = sum(torch.exp(s) for s in scores)
            heads.append(
                sum(torch.exp(s) / total * head(v[j], h, num_heads) for s, j in zip(scores, keys))
            )
        out.append(linear(torch.cat(heads), p["out_proj.weight"], p["out_proj.bias"]))
    return out


def sub(p, prefix):
    """The parameters below a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in p.items() if name.startswith(prefix)}


def encoder(p, embeddings, is_padding, bias, num_heads, num_layers, normalize_before):
    """The whole encoder on one sequence (L, D), with a finished bias."""

    def norm(x, q, name):
        return [layer_norm(t, q[name + ".weight"], q[name + ".bias"]) for t in x]

    x = norm(list(embeddings), p, "layernorm_embedding")
    x = [torch.zeros_like(t) if pad else t for t, pad in zip(x, is_padding)]
    for number in range(num_layers):
        q = sub(p, f"layers.{number}.")
        y = norm(x, q, "self_attn_layer_norm") if normalize_before else x
        y = attention(sub(q, "self_attn."), y, bias, num_heads, is_padding)
        x = [a + b for a, b in zip(x, y)]
        if not normalize_before:
            x = norm(x, q, "self_attn_layer_norm")
        y = norm(x, q, "final_layer_norm") if normalize_before else x
        y = [
            linear(gelu(linear(t, q["fc1.weight"], q["fc1.bias"])), q["fc2.weight"], q["fc2.bias"])
            for t in y
        ]
        x = [a + b for a, b in zip(x, y)]
        if not normalize_before:
            x = norm(x, q, "final_layer_norm")
    if normalize_before:
        x = norm(x, p, "layer_norm")
    return torch.stack(x)
