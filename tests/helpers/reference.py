"""Transformers with each position encoding, slow and literal: by head, token and entry.

They share no code with the package: TUPE's equations (7) to (11), and those of the other papers.
Parameters come in as a dict of float64 tensors under the names of the state dict; autograd
differentiates the loops.
"""

import math

import torch


def sub(p, prefix):
    """The parameters below a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in p.items() if name.startswith(prefix)}


def linear(x, p, name):
    """One vector through a linear map."""
    return p[name + ".weight"] @ x + p[name + ".bias"]


def layer_norm(x, p, name):
    """LN of one vector."""
    centred = x - x.sum() / len(x)
    variance = (centred**2).sum() / len(x)
    return centred / torch.sqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def head(x, h, num_heads):
    """The slice of a vector that belongs to head h."""
    size = len(x) // num_heads
    return x[h * size : (h + 1) * size]


def attention(p, x, source, num_heads, logit):
    """Attention in one sequence: queries from x, keys and values from source.

    ``logit(h, q, k, i, j)`` is the logit of a query and a key, None if the key is not seen.
    """
    if "in_proj_weight" in p:
        weights, biases = p["in_proj_weight"].chunk(3), p["in_proj_bias"].chunk(3)
    else:
        weights, biases = ([p[f"{n}_proj.{kind}"] for n in "qkv"] for kind in ("weight", "bias"))
    q, k, v = (
        [weight @ t + bias for t in vectors]
        for weight, bias, vectors in zip(weights, biases, (x, source, source))
    )
    out = []
    for i in range(len(x)):
        heads = []
        for h in range(num_heads):
            q_h, values = head(q[i], h, num_heads), [head(t, h, num_heads) for t in v]
            scores = [logit(h, q_h, head(t, h, num_heads), i, j) for j, t in enumerate(k)]
            shares = [0 if s is None else torch.exp(s) for s in scores]
            heads.append(sum(w / sum(shares) * t for w, t in zip(shares, values)))
        out.append(linear(torch.cat(heads), p, "out_proj"))
    return out


def position_parameters(p, number, shared):
    """Those of a layer's encoding; ``projection``: its W_Q and W_K, each with its bias."""
    of_layer = sub(p, f"layers.{number}.self_attn.")
    if "in_proj_weight" in of_layer:
        weights, biases = (of_layer[f"in_proj_{x}"].chunk(3)[:2] for x in ("weight", "bias"))
    else:
        weights, biases = ([of_layer[f"{y}_proj.{x}"] for y in "qk"] for x in ("weight", "bias"))
    both = [torch.cat((w, b[:, None]), dim=1) for w, b in zip(weights, biases)]
    return sub(p, shared) | sub(of_layer, "position.") | {"projection": both}


def layer(p, x, num_heads, pre_ln, activation, logit, source, cross_logit):
    def residual(x, name, block):
        if pre_ln:
            return [t + u for t, u in zip(x, block([layer_norm(t, p, name) for t in x]))]
        return [layer_norm(t + u, p, name) for t, u in zip(x, block(x))]

    def own(y):
        return attention(sub(p, "self_attn."), y, y, num_heads, logit)

    def cross(y):
        return attention(sub(p, "encoder_attn."), y, source, num_heads, cross_logit)

    x = residual(x, "self_attn_layer_norm", own)
    if source is not None:
        x = residual(x, "encoder_attn_layer_norm", cross)
    return residual(
        x,
        "final_layer_norm",
        lambda y: [linear(activation(linear(t, p, "fc1")), p, "fc2") for t in y],
    )


def transformer(p, x, num_heads, pre_ln, activation, logit_of, source=None, cross_logit=None):
    """All layers on one sequence, a list of vectors; ``logit_of(n)`` is layer n's ``logit``."""
    number = 0
    while q := sub(p, f"layers.{number}."):
        x = layer(q, x, num_heads, pre_ln, activation, logit_of(number), source, cross_logit)
        number += 1
    return torch.stack([layer_norm(t, p, "layer_norm") for t in x] if pre_ln else x)


# ---- Logits, by the papers ----------------------------------------------------------------------


def bucket(relative_position, num_buckets, max_distance, causal=False):
    """T5's bucket of one distance."""
    half = num_buckets if causal else num_buckets // 2
    exact = half // 2
    n = abs(relative_position)
    if n >= exact:
        steps = math.log(n / exact) / math.log(max_distance / exact) * (half - exact)
        n = min(half - 1, exact + math.floor(steps + 1e-9))
    return n + (half if relative_position > 0 else 0)


class Entry:
    """The logit of query vector q at position i and key vector k at position j, in head h."""

    def __init__(self, p, dim, heads, max_positions, name, options, causal=False):
        self.p, self.dim, self.heads, self.max = p, dim, heads, max_positions
        self.options, self.causal = options, causal
        self.logit = getattr(self, name.replace("-", "_"))
        self.rows = {}

    def t5(self, h, i, j, untie):
        """R of --rel-pos, with 8 buckets up to a distance of 5."""
        if not self.options.get("rel_pos"):
            return 0.0
        row = bucket(j - i, 8, 5, self.causal)
        if untie and i == 0:
            row = 4
        elif untie and j == 0:
            row = 8
        return self.p["relative.relative_attention_bias.weight"][row, h]

    def projected(self, prefix, kind, row, h):
        """U LN(p_row) + b of one head."""
        if (kind, row) not in self.rows:
            p = sub(self.p, prefix)
            x = layer_norm(p["pos.weight"][row], p, "pos_ln")
            self.rows[kind, row] = linear(x, p, f"pos_{kind}_proj")
        return head(self.rows[kind, row], h, self.heads)

    def tupe(self, h, q, k, i, j):
        untie, rows = not self.options.get("tie_cls"), (i + 1, j + 1)
        if untie and i == 0:
            rows = 0, 0
        elif untie and j == 0:
            rows = 1, 1
        pos_q, pos_k = (
            self.projected("untied_absolute.", kind, row, h) for kind, row in zip("qk", rows)
        )
        return (q @ k + pos_q @ pos_k) / math.sqrt(2 * len(q)) + self.t5(h, i, j, untie)

    def none(self, h, q, k, i, j):
        return q @ k / math.sqrt(len(q)) + self.t5(h, i, j, self.options.get("untie_cls"))

    learned = sinusoidal = none

    def disentangled(self, h, q, k, i, j):
        query, key = q + self.projected("", "q", i, h), k + self.projected("", "k", j, h)
        bias = self.t5(h, i, j, self.options.get("untie_cls"))
        return query @ key / math.sqrt(4 * len(q)) + bias

    def transformer_xl(self, h, q, k, i, j):
        # R_{i - j}: the authors put all sines first
        angles = [(i - j) / 10000 ** (2 * n / self.dim) for n in range((self.dim + 1) // 2)]
        feature = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        u, v, r = self.relative_key(h, len(q), feature[: self.dim])
        return ((q + u) @ k + (q + v) @ r) / math.sqrt(len(q))

    def enformer(self, h, q, k, i, j):
        symmetric, x = self.options.get("symmetric_basis"), j - i
        number = max(len(q) // (3 if symmetric else 6), 1)
        g = [math.exp(-math.log(2) / 2**e * abs(x)) for e in spaced(3, math.log2(self.max), number)]
        g += [float(abs(x) < 2**n - 1) for n in range(1, number + 1)]
        largest = max(max(gammas(d, self.max, number)) for d in range(self.max))
        g += [value / largest for value in gammas(abs(x), self.max, number)]
        sign = (x > 0) - (x < 0)
        u, v, r = self.relative_key(h, len(q), g if symmetric else g + [sign * y for y in g])
        q = q / math.sqrt(len(q))
        return (q + u) @ k + (q + v) @ r

    def relative_key(self, h, size, feature):
        """The two global biases and the projected feature of a distance."""
        rows = self.p["pos_k_proj.weight"][h * size : (h + 1) * size]
        r = rows @ torch.tensor(feature, dtype=torch.float64)
        return self.p["global_content_bias"][h], self.p["global_position_bias"][h], r

    def rope(self, h, q, k, i, j):
        base, share = self.options.get("rope_base", 10000), self.options.get("rope_share", 1)
        q, k = (rotated(x, at, base, share) for x, at in ((q, i), (k, j)))
        return q @ k / math.sqrt(len(q))

    def deberta(self, h, q, k, i, j):
        """Words to words, words to distances, distances to words; 8 buckets up to a distance of 5.

        Buckets of i - j: 0, 1, 2 as they are, 3 and 4 are 3, which is the last one.
        """
        row = 4 + max(-3, min(3, i - j))
        x = layer_norm(self.p["rel_embeddings.weight"][row], self.p, "rel_ln")
        pos_q, pos_k = (
            head(own[:, :-1] @ x + own[:, -1], h, self.heads) for own in self.p["projection"]
        )
        return (q @ k + q @ pos_k + pos_q @ k) / math.sqrt(3 * len(q))

    def pope(self, h, q, k, i, j):
        score = 0.0
        for n in range(len(q)):
            angle = (j - i) / 10000 ** (n / len(q)) + self.p["phases"][h, n]
            lengths = torch.log(1 + torch.exp(q[n])) * torch.log(1 + torch.exp(k[n]))
            score += lengths * torch.cos(angle)
        return score / math.sqrt(len(q))

    def alibi(self, h, q, k, i, j):
        # the paper's slopes for 3 heads: both of 2 heads, and the first of 4 heads
        bias = -[2**-4, 2**-8, 2**-2][h] * abs(j - i)
        if self.options.get("untie_cls") and i == 0:
            bias = self.p["cls_to_other"][h]
        elif self.options.get("untie_cls") and j == 0:
            bias = self.p["other_to_cls"][h]
        return q @ k / math.sqrt(len(q)) + bias

    def fire(self, h, q, k, i, j):
        c, weight = abs(self.p["c"][0]), self.p["out_weight"][h]
        far = 512 * abs(self.p["threshold"][0])  # L
        far = max(i, j) if max(i, j) > far else far
        x = torch.log(1 + c * abs(i - j)) / (torch.log(1 + c * far) + 1e-6)
        x = x if j <= i else -x
        units = zip(weight, self.p["hidden_weight"], self.p["hidden_bias"])
        return q @ k / math.sqrt(len(q)) + sum(w * max(u * x + b, 0 * x) for w, u, b in units)

    def kerple(self, h, q, k, i, j):
        r1, r2 = torch.exp(self.p["log_r1"][h]), torch.exp(self.p["log_r2"][h])
        return q @ k / math.sqrt(len(q)) - r1 * torch.log(1 + r2 * abs(i - j))

    def learned_slopes(self, h, q, k, i, j):
        return q @ k / math.sqrt(len(q)) - torch.exp(self.p["log_slopes"][h]) * abs(j - i)

    def shaw(self, h, q, k, i, j):
        reach = self.options.get("max_rel_pos", 16)
        key = k + self.p["relative_keys.weight"][max(-reach, min(reach, j - i)) + reach]
        return q @ key / math.sqrt(len(q))


#: parameters that do not start as in BERT, by the end of the name: the range of their first values
FIRST_VALUES = {
    "c": (0.1, 0.1), "threshold": (1, 1), "hidden_weight": (-1, 1), "hidden_bias": (-1, 1),
    "out_weight": (-(32**-0.5), 32**-0.5), "log_r1": (math.log(0.01), math.log(2)),
    "log_r2": (math.log(0.01), 0), "phases": (0, 0), "log_slopes": (-6, 0),
}  # fmt: skip


def num_parameters(D, H, K, M):
    """For width D, H heads of width K and M positions, as in examples/positions/README.md."""
    return {
        "tupe": (M + 1) * D + 2 * D**2 + 4 * D,
        "learned": M * D,
        "transformer-xl": D**2 + 2 * D,
        "enformer": 6 * D + 2 * D,
        "pope": H * K,
        "fire": 2 + 2 * 32 + 32 * H,
        "kerple": 2 * H,
        "learned-slopes": H,
        "shaw": (2 * 16 + 1) * K,
        "disentangled": M * D + 2 * D**2 + 4 * D,
        "deberta": 64 * D + 2 * D,
    }


def sinusoid(position, dim):
    """fairseq's order and frequencies: sines, cosines, and a zero if the width is odd."""
    half = dim // 2
    angles = [position * 10000 ** (-n / max(half - 1, 1)) for n in range(half)]
    return [*map(math.sin, angles), *map(math.cos, angles), *[0.0] * (dim % 2)]


def spaced(start, end, number):
    return [start + (end - start) * n / max(number - 1, 1) for n in range(number)]


def gammas(x, length, number):
    """Enformer's gamma densities at a distance, before they are divided by their maximum."""
    values = []
    for mean in spaced(length / number, length, number):
        deviation = length / (2 * number)
        shape, rate = (mean / deviation) ** 2, mean / deviation**2
        log = shape * math.log(rate) - math.lgamma(shape) - rate * x
        values.append((math.exp(log + (shape - 1) * math.log(x)) if x else 0.0) + 1e-8)
    return values


def rotated(x, position, base, share):
    """Pair by pair, as a complex number times exp(i angle); pairs beyond the share as they are."""
    half, out = len(x) // 2, [None] * len(x)
    for n in range(half):
        angle = position / base ** (n / half) if n + 1 <= share * half else 0.0
        out[n] = x[n] * math.cos(angle) - x[n + half] * math.sin(angle)
        out[n + half] = x[n] * math.sin(angle) + x[n + half] * math.cos(angle)
    return torch.stack(out)
