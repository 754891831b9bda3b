"""The logits of each position encoding by its paper, one entry at a time."""

import math

import torch

from helpers import reference


class Entry:
    """The logit of query vector q at position i and key vector k at position j, in head h."""

    def __init__(self, p, dim, heads, max_positions, name, options, causal=False):
        self.p, self.dim, self.heads, self.max = p, dim, heads, max_positions
        self.options, self.causal = options, causal
        self.logit = getattr(self, name.replace("-", "_"))
        self.rows = {}

    def dot(self, q, k):
        return sum(q[d] * k[d] for d in range(len(q)))

    def t5(self, h, i, j, untie):
        """R of --rel-pos, with 8 buckets up to a distance of 5."""
        if not self.options.get("rel_pos"):
            return 0.0
        row = reference.causal_bucket(i - j, 8, 5) if self.causal else reference.bucket(j - i, 8, 5)
        if untie and i == 0:
            row = 4
        elif untie and j == 0:
            row = 8
        return self.p["relative.relative_attention_bias.weight"][row, h]

    def projected(self, prefix, kind, row, h):
        """U LN(p_row) + b of one head."""
        if (kind, row) not in self.rows:
            p = reference.sub(self.p, prefix)
            x = reference.layer_norm(p["pos.weight"][row], p["pos_ln.weight"], p["pos_ln.bias"])
            made = reference.linear(x, p[f"pos_{kind}_proj.weight"], p[f"pos_{kind}_proj.bias"])
            self.rows[kind, row] = made
        return reference.head(self.rows[kind, row], h, self.heads)

    def tupe(self, h, q, k, i, j):
        untie, rows = not self.options.get("tie_cls"), (i + 1, j + 1)
        if untie and i == 0:
            rows = 0, 0
        elif untie and j == 0:
            rows = 1, 1
        pos_q, pos_k = (
            self.projected("untied_absolute.", kind, row, h) for kind, row in zip("qk", rows)
        )
        score = (self.dot(q, k) + self.dot(pos_q, pos_k)) / math.sqrt(2 * len(q))
        return score + self.t5(h, i, j, untie)

    def none(self, h, q, k, i, j):
        bias = self.t5(h, i, j, self.options.get("untie_cls"))
        return self.dot(q, k) / math.sqrt(len(q)) + bias

    learned = sinusoidal = none

    def disentangled(self, h, q, k, i, j):
        query, key = q + self.projected("", "q", i, h), k + self.projected("", "k", j, h)
        bias = self.t5(h, i, j, self.options.get("untie_cls"))
        return self.dot(query, key) / math.sqrt(4 * len(q)) + bias

    def transformer_xl(self, h, q, k, i, j):
        # R_{i - j}: the authors put all sines first
        angles = [(i - j) / 10000 ** (2 * n / self.dim) for n in range((self.dim + 1) // 2)]
        feature = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        return self.with_relative_key(h, q, k, feature[: self.dim], scale_all=True)

    def with_relative_key(self, h, q, k, feature, scale_all):
        size = len(q)
        rows = slice(h * size, (h + 1) * size)
        r = self.p["pos_k_proj.weight"][rows] @ torch.tensor(feature, dtype=torch.float64)
        u, v = self.p["global_content_bias"][h], self.p["global_position_bias"][h]
        if scale_all:
            return (self.dot(q + u, k) + self.dot(q + v, r)) / math.sqrt(size)
        q = q / math.sqrt(size)
        return self.dot(q + u, k) + self.dot(q + v, r)

    def enformer(self, h, q, k, i, j):
        symmetric, x = self.options.get("symmetric_basis"), j - i
        number = max(len(q) // (3 if symmetric else 6), 1)
        g = [math.exp(-math.log(2) / 2**e * abs(x)) for e in spaced(3, math.log2(self.max), number)]
        g += [float(abs(x) < 2**n - 1) for n in range(1, number + 1)]
        largest = max(max(gammas(d, self.max, number)) for d in range(self.max))
        g += [value / largest for value in gammas(abs(x), self.max, number)]
        sign = (x > 0) - (x < 0)
        feature = g if symmetric else g + [sign * value for value in g]
        return self.with_relative_key(h, q, k, feature, scale_all=False)

    def rope(self, h, q, k, i, j):
        return self.dot(rotated(q, i), rotated(k, j)) / math.sqrt(len(q))

    def alibi(self, h, q, k, i, j):
        # of the paper, for 3 heads: the two of 2 heads, and the first of 4
        bias = -[2**-4, 2**-8, 2**-2][h] * abs(j - i)
        if self.options.get("untie_cls") and i == 0:
            bias = self.p["cls_to_other"][h]
        elif self.options.get("untie_cls") and j == 0:
            bias = self.p["other_to_cls"][h]
        return self.dot(q, k) / math.sqrt(len(q)) + bias

    def shaw(self, h, q, k, i, j):
        reach = self.options.get("max_rel_pos", 16)
        key = k + self.p["relative_keys.weight"][max(-reach, min(reach, j - i)) + reach]
        return self.dot(q, key) / math.sqrt(len(q))


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


def rotated(x, position):
    """Pair by pair, as a complex number times exp(i angle)."""
    half, out = len(x) // 2, [None] * len(x)
    for n in range(half):
        angle = position / 10000 ** (n / half)
        out[n] = x[n] * math.cos(angle) - x[n + half] * math.sin(angle)
        out[n + half] = x[n] * math.sin(angle) + x[n + half] * math.cos(angle)
    return torch.stack(out)
