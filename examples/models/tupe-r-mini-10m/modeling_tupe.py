"""TUPE for transformers: a Transformer encoder whose positions are untied from its words.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595, and for the other position encodings
the papers named at their classes. MIT License, Copyright (c) 2026 The tupe_fairseq authors.
This file is copied into every exported folder; it computes what tupe_fairseq does.

Shapes: B sequences of L tokens, V words, D model width, H heads of width K.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from .configuration_tupe import TupeConfig


def gelu_accurate(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


# no lambdas, which could not be pickled
ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_accurate": gelu_accurate,
    "linear": torch.positive,
    "relu": F.relu,
    "tanh": torch.tanh,
}


def chosen(config: TupeConfig, option: str, names) -> str:
    """The value of an option that has names to choose from."""
    value = getattr(config, option)
    if value not in names:
        raise ValueError(f"{option} {value!r} is not one of {', '.join(names)}")
    return value


# ---- Position encodings -------------------------------------------------------------------------


def relative_positions(length: int, device) -> Tensor:
    """Key position minus query position, (L, L)."""
    positions = torch.arange(length, device=device)
    return positions[None, :] - positions[:, None]


def arange_float64(start: int, end: int, device: torch.device) -> Tensor:
    """start .. end - 1 in float64; on the CPU for MPS, which has none."""
    device = torch.device("cpu") if device.type == "mps" else device
    return torch.arange(start, end, dtype=torch.float64, device=device)


def full_precision(x: Tensor) -> torch.autocast:
    """No autocast on the device of x: every layer adds the bias, so it is not rounded."""
    return torch.autocast("cpu" if x.is_meta else x.device.type, enabled=False)


def in_float32(module: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """A module's output, computed in float32 if all its weights have 16 bits, else in dtype."""
    weights = dict(module.named_parameters())
    if any(weight.element_size() != 2 for weight in weights.values()):
        return module(x.to(dtype)).float()
    wide = {name: weight.float() for name, weight in weights.items()}
    return torch.func.functional_call(module, wide, x.float())


def table_rows(table: nn.Embedding, count: int) -> Tensor:
    """The first rows of a table; zeros beyond its end, where only padding may be."""
    missing = count - table.num_embeddings
    return F.pad(table.weight, (0, 0, 0, missing)) if missing > 0 else table.weight[:count]


def untie_cls(bias: Tensor, cls_to_other: Tensor, other_to_cls: Tensor) -> Tensor:
    """Replace the first row and column of (H, L, L), those of [CLS], by one value per head each."""
    is_cls = torch.arange(bias.size(-1), device=bias.device) == 0
    bias = torch.where(is_cls, other_to_cls[:, None, None], bias)
    return torch.where(is_cls[:, None], cls_to_other[:, None, None], bias)


def relative_position_bucket(distance: Tensor, num_buckets: int, max_distance: int) -> Tensor:
    """T5's buckets: exact near zero, logarithmic further away; the upper half for positive ones."""
    half = num_buckets // 2
    exact = half // 2
    x = distance.abs()
    log = torch.log(x.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (log * (half - exact)).long()).clamp(max=half - 1)
    return torch.where(x < exact, x, far) + (distance > 0).long() * half


class RelativePositionBias(nn.Module):
    """A learned scalar per head and T5 bucket (Raffel et al. 2020): () -> (H, L, L).

    With an untied [CLS], bucket ``num_buckets / 2``, into which no distance falls, and one more
    bucket hold the scores of [CLS].
    """

    def __init__(self, config: TupeConfig, untie: bool):
        super().__init__()
        self.num_buckets = config.rel_pos_buckets or 32
        self.max_distance = config.max_rel_pos or 128
        if self.num_buckets < 4 or self.num_buckets % 2:
            raise ValueError(f"rel_pos_buckets ({self.num_buckets}) must be even and at least 4")
        if self.max_distance <= self.num_buckets // 4:
            raise ValueError(
                f"max_rel_pos ({self.max_distance}) must be above a quarter of rel_pos_buckets "
                f"({self.num_buckets}), up to which each distance has a bucket"
            )
        self.untie = untie
        self.relative_attention_bias = nn.Embedding(
            self.num_buckets + 1, config.num_attention_heads
        )

    def forward(self, length: int) -> Tensor:
        table = self.relative_attention_bias.weight.float()
        # on the CPU: another device's logarithm may round to another bucket
        all_distances = torch.arange(-self.max_distance, self.max_distance + 1, device="cpu")
        buckets = relative_position_bucket(all_distances, self.num_buckets, self.max_distance)
        distance = relative_positions(length, table.device)
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        bias = table[buckets.to(table.device)[index]].permute(2, 0, 1)
        if not self.untie:
            return bias
        return untie_cls(bias, table[self.num_buckets // 2], table[self.num_buckets])


class ProjectedTable(nn.Module):
    """A learned position table with query and key projections of its own."""

    def make_table(self, rows: int, config: TupeConfig) -> None:
        self.pos = nn.Embedding(rows, config.hidden_size)
        self.pos_ln = nn.LayerNorm(config.hidden_size)
        self.pos_q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.pos_k_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def project(self, rows: int, num_heads: int):
        """Queries and keys of the first rows, (H, rows, K) each."""
        table = table_rows(self.pos, rows)
        with full_precision(table):
            x = in_float32(self.pos_ln, table, table.dtype)
            return [
                in_float32(proj, x, table.dtype).unflatten(-1, (num_heads, -1)).transpose(0, 1)
                for proj in (self.pos_q_proj, self.pos_k_proj)
            ]


class UntiedAbsoluteBias(ProjectedTable):
    """TUPE's (p_i U_Q)·(p_j U_K) / sqrt(2K). Position t is row t + 1; rows 0 and 1 score [CLS]."""

    def __init__(self, config: TupeConfig):
        super().__init__()
        self.num_heads, self.untie = config.num_attention_heads, not config.tie_cls
        self.scaling = (2 * config.hidden_size // config.num_attention_heads) ** -0.5
        self.make_table(config.max_position_embeddings + 1, config)

    def forward(self, length: int) -> Tensor:
        q, k = self.project(length + 1, self.num_heads)
        bias = self.scaling * q[:, 1:] @ k[:, 1:].transpose(1, 2)
        if not self.untie:
            return bias
        cls_to_other, other_to_cls = (self.scaling * (q[:, r] * k[:, r]).sum(-1) for r in (0, 1))
        return untie_cls(bias, cls_to_other, other_to_cls)


class PositionEncoding(nn.Module):
    """What positions do; a subclass overrides what it needs. ``rel_pos`` adds T5's bias."""

    per_layer = False  # whether each layer has parameters of its own
    has_table = False  # whether the length is limited
    has_content_bias = False  # whether it reads the words

    def __init__(self, config: TupeConfig):
        super().__init__()
        if config.rel_pos and config.position_encoding not in WITH_REL_POS:
            raise ValueError(
                f"position_encoding {config.position_encoding!r} does not take rel_pos; set it to "
                "False, and rel_pos_buckets and max_rel_pos to None"
            )
        self.num_heads = config.num_attention_heads
        if config.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size ({config.hidden_size}) is not divisible by num_attention_heads "
                f"({self.num_heads})"
            )
        self.head_dim = config.hidden_size // self.num_heads
        self.scaling = self.head_dim**-0.5
        untie = not config.tie_cls if config.position_encoding == "tupe" else config.untie_cls
        self.relative = RelativePositionBias(config, untie) if config.rel_pos else None

    def embed(self, length: int) -> Tensor | None:
        """(L, D), added to the words."""
        return None

    def bias(self, length: int) -> Tensor | None:
        """(H, L, L), added to the scores of every layer."""
        return None if self.relative is None else self.relative(length)

    def content_bias(self, q: Tensor, k: Tensor) -> Tensor | None:
        """Queries and keys (B, H, L, K) -> (B, H, L, L), added to the scores."""
        return None

    def rotate(self, qk: Tensor) -> Tensor:
        """Queries and keys (2, B, H, L, K), changed by their positions."""
        return qk


class TupePositionBias(PositionEncoding):
    """TUPE-A; with ``rel_pos`` TUPE-R."""

    has_table = True

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.untied_absolute = UntiedAbsoluteBias(config)
        self.scaling = self.untied_absolute.scaling

    def bias(self, length: int) -> Tensor:
        relative = super().bias(length)
        absolute = self.untied_absolute(length)
        return absolute if relative is None else absolute + relative


class LearnedPositions(PositionEncoding):
    """BERT's vectors, added to the words (Devlin et al. 2019)."""

    has_table = True

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.pos = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def embed(self, length: int) -> Tensor:
        return table_rows(self.pos, length)


class SinusoidalPositions(PositionEncoding):
    """Fixed sines and cosines, added to the words (Vaswani et al. 2017)."""

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.dim = config.hidden_size

    def embed(self, length: int) -> Tensor:
        half = self.dim // 2
        steps = torch.arange(half, dtype=torch.float64)
        frequencies = torch.exp(steps * (-math.log(10000) / max(half - 1, 1)))
        angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
        values = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return F.pad(values, (0, self.dim - 2 * half)).float()


class Disentangled(PositionEncoding, ProjectedTable):
    """(q + U_Q p_i)·(k + U_K p_j) / sqrt(4K): all four terms (the paper's BERT-A^d)."""

    has_table = True
    has_content_bias = True

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.scaling = (4 * self.head_dim) ** -0.5
        self.make_table(config.max_position_embeddings, config)

    def bias(self, length: int) -> Tensor:
        q, k = self.project(length, self.num_heads)
        bias, relative = self.scaling * q @ k.transpose(1, 2), super().bias(length)
        return bias if relative is None else bias + relative

    def content_bias(self, q: Tensor, k: Tensor) -> Tensor:
        pos_q, pos_k = (x.to(q.dtype) for x in self.project(q.size(2), self.num_heads))
        return self.scaling * (q @ pos_k.transpose(1, 2) + pos_q @ k.transpose(2, 3))


class AlibiBias(PositionEncoding):
    """A penalty linear in the distance (Press et al. 2022), in both directions."""

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        lower = 2 ** (self.num_heads.bit_length() - 1)
        slopes = [2 ** (-8 * (h + 1) / lower) for h in range(lower)]
        between = [2 ** (-8 * (h + 1) / (2 * lower)) for h in range(0, 2 * lower, 2)]
        self.slopes = slopes + between[: self.num_heads - lower]
        self.untie = config.untie_cls
        if self.untie:
            self.cls_to_other = nn.Parameter(torch.zeros(self.num_heads))
            self.other_to_cls = nn.Parameter(torch.zeros(self.num_heads))

    def bias(self, length: int) -> Tensor:
        device = self.cls_to_other.device if self.untie else None
        slopes = torch.tensor(self.slopes, device=device)
        bias = -slopes[:, None, None] * relative_positions(length, device).abs()
        if not self.untie:
            return bias
        return untie_cls(bias, self.cls_to_other.float(), self.other_to_cls.float())


class FireBias(PositionEncoding):
    """A small network of the distance on a logarithmic scale (Li et al. 2024), in both directions.

    Its input is psi(|i - j|) / psi(max(L, i, j)) with the sign of i - j, psi(d) = log(1 + |c| d).
    """

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.c, self.threshold = (nn.Parameter(torch.empty(1)) for _ in range(2))
        self.hidden_weight, self.hidden_bias = (nn.Parameter(torch.empty(32)) for _ in range(2))
        self.out_weight = nn.Parameter(torch.empty(self.num_heads, 32))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, 0.1)
        nn.init.ones_(self.threshold)
        for x in (self.hidden_weight, self.hidden_bias, self.out_weight):
            bound = 1 if x.dim() == 1 else 32**-0.5
            nn.init.uniform_(x, -bound, bound)

    def bias(self, length: int) -> Tensor:
        c, threshold, u, b, w = (x.float() for x in self.parameters())
        j = torch.arange(length, device=c.device)
        distance = -relative_positions(length, c.device).float()
        far = torch.maximum(torch.maximum(j[:, None], j).float(), (512 * threshold).abs())
        psi, psi_far = (torch.log1p((c * d).abs()) for d in (distance, far))
        x = distance.sign() * psi / (psi_far + 1e-6)
        return F.linear(F.relu(x[..., None] * u + b), w).permute(2, 0, 1)


class KerpleBias(PositionEncoding):
    """-r1 log(1 + r2 |distance|), two positive numbers a head (Chi et al. 2022), on both sides."""

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.log_r1, self.log_r2 = (nn.Parameter(torch.empty(self.num_heads)) for _ in range(2))

    def reset_parameters(self) -> None:
        with torch.no_grad():
            for parameter, most in ((self.log_r1, 2), (self.log_r2, 1)):
                nn.init.uniform_(parameter, 0, most).clamp_(min=0.01).log_()

    def bias(self, length: int) -> Tensor:
        r1, r2 = (x.float().exp()[:, None, None] for x in (self.log_r1, self.log_r2))
        return -r1 * torch.log1p(r2 * relative_positions(length, r1.device).abs())


def cosines_and_sines(length: int, number: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Of the angles of each position at frequencies from 1 to 1 / 10,000: (length, number)."""
    positions, steps = (arange_float64(0, n, device) for n in (length, number))
    angles = positions[:, None] * 10000.0 ** (-steps / number)
    return angles.cos().float().to(device), angles.sin().float().to(device)


class RotaryPositions(PositionEncoding):
    """Rotated queries and keys (Su et al. 2021), halves paired as in LLaMA."""

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        if self.head_dim % 2:
            raise ValueError(
                f"hidden_size / num_attention_heads ({self.head_dim}) must be even for rope"
            )

    def rotate(self, qk: Tensor) -> Tensor:
        half = self.head_dim // 2
        cos, sin = cosines_and_sines(qk.size(-2), half, qk.device)
        a, b = qk[..., :half].float(), qk[..., half:].float()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(qk.dtype)


class PolarPositions(PositionEncoding):
    """Words are lengths, positions angles (Gopalakrishnan et al. 2025): K numbers become 2 K."""

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.phases = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))  # of the keys

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.phases)

    def rotate(self, qk: Tensor) -> Tensor:
        cos, sin = cosines_and_sines(qk.size(-2), self.head_dim, qk.device)
        phases = self.phases.float()
        phases = torch.stack([torch.zeros_like(phases), phases])[:, None, :, None]
        lengths = F.softplus(qk.float())
        x = lengths * (cos * phases.cos() - sin * phases.sin())
        y = lengths * (sin * phases.cos() + cos * phases.sin())
        return torch.cat([x, y], dim=-1).to(qk.dtype)


class ShawRelative(PositionEncoding):
    """A learned key for each clipped distance (Shaw et al. 2018)."""

    per_layer = True
    has_content_bias = True

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.max_distance = config.max_rel_pos or 16
        self.relative_keys = nn.Embedding(2 * self.max_distance + 1, self.head_dim)

    def content_bias(self, q: Tensor, k: Tensor) -> Tensor:
        distance = relative_positions(q.size(2), q.device)
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        scores = self.scaling * q @ self.relative_keys.weight.t()
        return scores.gather(-1, index.expand(*scores.shape[:2], -1, -1))


class TransformerXlRelative(PositionEncoding):
    """(q + u)·k + (q + v)·(W s(distance)), u and v learned (Dai et al. 2019)."""

    per_layer = True
    has_content_bias = True

    def __init__(self, config: TupeConfig, num_features: int | None = None):
        super().__init__(config)
        self.dim = config.hidden_size
        self.global_content_bias = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))
        self.global_position_bias = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))
        self.pos_k_proj = nn.Linear(num_features or self.dim, self.dim, bias=False)
        self.bias_scaling = self.scaling

    def features(self, distance: Tensor) -> Tensor:
        """(N) -> (N, features); the paper's distance is query minus key."""
        steps = arange_float64(0, (self.dim + 1) // 2, distance.device)
        angles = -distance[:, None] * torch.exp(2 * steps * (-math.log(10000) / self.dim))
        return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, : self.dim]

    def content_bias(self, q: Tensor, k: Tensor) -> Tensor:
        length, u, v = q.size(2), self.global_content_bias, self.global_position_bias
        distance = arange_float64(1 - length, length, q.device)
        keys = self.pos_k_proj(self.features(distance).to(u))
        keys = keys.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0)
        by_distance = (self.scaling * q + self.bias_scaling * v[:, None]) @ keys.to(q.dtype)
        index = (relative_positions(length, q.device) + length - 1).expand(*q.shape[:2], -1, -1)
        content = (self.bias_scaling * u[:, None] * k).sum(-1)
        return by_distance.gather(-1, index) + content[:, :, None]


class EnformerRelative(TransformerXlRelative):
    """Transformer-XL's form with basis functions of the distance (Avsec et al. 2021)."""

    def __init__(self, config: TupeConfig):
        self.symmetric = config.symmetric_basis
        self.max_positions = config.max_position_embeddings
        groups = 3 if self.symmetric else 6
        head_dim = config.hidden_size // config.num_attention_heads
        self.num_basis = max(head_dim // groups, 1)
        super().__init__(config, groups * self.num_basis)
        self.bias_scaling = 1.0
        all_distances = arange_float64(0, self.max_positions, torch.device("cpu"))
        self.gamma_maximum = self.gamma(all_distances[:, None]).max().item()

    def gamma(self, x: Tensor) -> Tensor:
        """Gamma densities with means up to the longest distance. (ONNX has no lgamma.)"""
        deviation = self.max_positions / (2 * self.num_basis)
        means = [self.max_positions * n / self.num_basis for n in range(1, self.num_basis + 1)]
        shapes = [(mean / deviation) ** 2 for mean in means]
        rates = [mean / deviation**2 for mean in means]
        log_norms = [math.lgamma(c) - c * math.log(r) for c, r in zip(shapes, rates, strict=True)]
        shape, rate, log_norm = x.new_tensor([shapes, rates, log_norms])
        return torch.exp(torch.xlogy(shape - 1, x) - rate * x - log_norm) + 1e-8

    def features(self, distance: Tensor) -> Tensor:
        x = distance.abs()[:, None]
        exponent = torch.linspace(
            3, math.log2(self.max_positions), self.num_basis, dtype=x.dtype, device=x.device
        )
        width = 2 ** arange_float64(1, self.num_basis + 1, x.device) - 1
        basis = torch.cat(
            [
                torch.exp(-math.log(2) / 2**exponent * x),
                (width > x).to(x.dtype),
                self.gamma(x) / self.gamma_maximum,
            ],
            dim=-1,
        )
        return basis if self.symmetric else torch.cat([basis, distance.sign()[:, None] * basis], -1)


POSITION_ENCODINGS = {
    "tupe": TupePositionBias,
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "none": PositionEncoding,
    "transformer-xl": TransformerXlRelative,
    "enformer": EnformerRelative,
    "rope": RotaryPositions,
    "pope": PolarPositions,
    "alibi": AlibiBias,
    "fire": FireBias,
    "kerple": KerpleBias,
    "shaw": ShawRelative,
    "disentangled": Disentangled,
}
# those to which rel_pos adds T5's bias
WITH_REL_POS = ("tupe", "learned", "sinusoidal", "none", "disentangled")


# ---- The encoder --------------------------------------------------------------------------------


def as_dtype(bias: Tensor, dtype: torch.dtype) -> Tensor:
    """In 16 bits with the maximum of each row moved to 0, where they are finest."""
    if torch.finfo(dtype).bits < 32 and bias.dtype != dtype:
        bias = bias - bias.detach().amax(dim=-1, keepdim=True)
    return bias.to(dtype)


def sdpa(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
    """torch's fused attention."""
    if bias is not None:
        bias = aligned(as_dtype(bias, q.dtype)).expand(*q.shape[:3], -1)
        if bias.is_cuda and q.size(-1) % 8 == 0 and q.dtype != torch.float64:
            # not cuDNN's, which gives no gradient for a bias, and wrong results for some lengths
            options = torch.is_grad_enabled(), dropout, False
            efficient = torch.ops.aten._scaled_dot_product_efficient_attention
            return efficient(q, k, v, bias, *options, scale=1.0)[0]
    return F.scaled_dot_product_attention(q, k, v, bias, dropout_p=dropout, scale=1.0)


def aligned(bias: Tensor) -> Tensor:
    """With rows as torch's kernel on CUDA needs them, and so that it does not copy the bias."""
    if bias.is_cuda:
        if bias.stride(-1) != 1:
            bias = bias.clone(memory_format=torch.contiguous_format)
        if bias.stride(-2) % 8:
            bias = F.pad(bias, (0, -bias.size(-1) % 8)).narrow(-1, 0, bias.size(-1))
    return bias


class TupeSelfAttention(nn.Module):
    """softmax(scaling * q k^T + bias) v."""

    def __init__(self, config: TupeConfig, scaling: float, position: PositionEncoding | None):
        super().__init__()
        self.config, self.scaling, self.position = config, scaling, position
        self.num_heads = config.num_attention_heads
        self.in_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size)  # q, k, v
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, bias, shared_position, output_attentions):
        """x (B, L, D), bias like (B, H, L, L), or None -> (B, L, D), probabilities (B, H, L, L)."""
        qkv = self.in_proj(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv
        position = shared_position if self.position is None else self.position
        content_bias = position.content_bias(q, k)
        if content_bias is not None:
            bias = content_bias if bias is None else bias + content_bias
        q, k = position.rotate(qkv[:2])
        q = self.scaling * q
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        probs = None
        if output_attentions or self.config._attn_implementation == "eager":
            scores = (q @ k.transpose(2, 3)).float()
            probs = torch.softmax(scores if bias is None else scores + bias, dim=-1)
            y = F.dropout(probs, dropout).to(v.dtype) @ v
        else:
            y = sdpa(q, k, v, bias, dropout)
        # not contiguous(): the ONNX exporter cannot rely on the strides of sdpa's output
        y = y.transpose(1, 2).clone(memory_format=torch.contiguous_format)
        return self.out_proj(y.flatten(2)), probs


class TupeLayer(nn.Module):
    """Attention and a feed-forward network; post-LN, or pre-LN with ``normalize_before``."""

    def __init__(self, config: TupeConfig, scaling: float, position: PositionEncoding | None):
        super().__init__()
        self.config = config
        self.self_attn = TupeSelfAttention(config, scaling, position)
        self.self_attn_layer_norm = nn.LayerNorm(config.hidden_size)
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.final_layer_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, x, bias, shared_position, output_attentions):
        """As :class:`TupeSelfAttention`."""
        config, pre_ln = self.config, self.config.normalize_before
        y = self.self_attn_layer_norm(x) if pre_ln else x
        y, probs = self.self_attn(y, bias, shared_position, output_attentions)
        x = x + F.dropout(y, config.hidden_dropout_prob, self.training)
        x = x if pre_ln else self.self_attn_layer_norm(x)
        y = self.fc1(self.final_layer_norm(x) if pre_ln else x)
        y = F.dropout(ACTIVATIONS[config.hidden_act](y), config.activation_dropout, self.training)
        x = x + F.dropout(self.fc2(y), config.hidden_dropout_prob, self.training)
        return (x if pre_ln else self.final_layer_norm(x)), probs


class TupeEncoder(nn.Module):
    """Position encoding and layers; positions are computed once, for all layers."""

    def __init__(self, config: TupeConfig):
        super().__init__()
        self.config, self.gradient_checkpointing = config, False
        self.layernorm_embedding = nn.LayerNorm(config.hidden_size)
        chosen(config, "hidden_act", ACTIVATIONS)
        encoding = POSITION_ENCODINGS[chosen(config, "position_encoding", POSITION_ENCODINGS)]
        self.has_content_bias = encoding.has_content_bias
        self.position_bias = None if encoding.per_layer else encoding(config)
        layers = []
        for _ in range(config.num_hidden_layers):
            own = encoding(config) if encoding.per_layer else None
            layers.append(TupeLayer(config, (own or self.position_bias).scaling, own))
        self.layers = nn.ModuleList(layers)
        self.layer_norm = nn.LayerNorm(config.hidden_size) if config.normalize_before else None

    def forward(self, x, mask, output_attentions, output_hidden_states) -> BaseModelOutput:
        """x (B, L, D), mask bool (B, L), True = token, or None; padding is on the right."""
        config, length, position = self.config, x.size(1), self.position_bias
        implementation = config._attn_implementation
        if implementation not in ("eager", "sdpa"):
            raise ValueError(
                f"attn_implementation {implementation!r} would lose the positions, "
                "which are a bias of the attention scores; choose 'sdpa' or 'eager'"
            )
        added = None if position is None else position.embed(length)
        x = self.layernorm_embedding(x if added is None else x + added.to(x))
        x = F.dropout(x, config.hidden_dropout_prob, self.training)
        with full_precision(x):
            bias = None if position is None else position.bias(length)
        device = x.device.type
        is_autocast = not x.is_meta and torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_autocast else x.dtype
        if implementation == "eager" or self.has_content_bias:  # they add to it
            dtype = torch.promote_types(dtype, torch.float32)
        if bias is not None:
            bias = as_dtype(bias[None].to(x.device), dtype)
        if mask is not None:
            bias = x.new_zeros(1, 1, 1, 1, dtype=dtype) if bias is None else bias
            # half of it, so that a content bias may be added
            bias = bias.masked_fill(~mask[:, None, None], torch.finfo(dtype).min / 2)
        bias = None if bias is None else aligned(bias)  # once for all layers
        hidden_states, attentions = [x], []
        for number, layer in enumerate(self.layers):
            if number and added is not None and config.position_each_layer:
                x = x + added.to(x)
            if self.gradient_checkpointing and self.training:
                x, probs = self._gradient_checkpointing_func(
                    layer.__call__, x, bias, position, output_attentions
                )
            else:
                x, probs = layer(x, bias, position, output_attentions)
            hidden_states.append(x)
            attentions.append(probs)
        if self.layer_norm is not None:
            x = hidden_states[-1] = self.layer_norm(x)
        return BaseModelOutput(
            last_hidden_state=x,
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


# ---- The models ---------------------------------------------------------------------------------

NO_HEAD_MASK = "its heads cannot be masked or pruned one by one"
PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")


class TupePreTrainedModel(PreTrainedModel):
    """Initialization, loading and saving; see ``PreTrainedModel``."""

    config_class = TupeConfig
    base_model_prefix = "tupe"
    supports_gradient_checkpointing = True
    _no_split_modules = ["TupeEncoder"]  # its layers share a bias, which stays on one device
    _supports_sdpa = True
    accepts_loss_kwargs = False  # or Trainer leaves it to the loss to count accumulated batches

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True

    def prune_heads(self, heads_to_prune) -> None:
        raise NotImplementedError(f"the model takes no prune_heads: {NO_HEAD_MASK}")

    def _init_weights(self, module: nn.Module) -> None:
        """BERT's: N(0, ``initializer_range``); biases and the embedding of padding are zero."""
        std = self.config.initializer_range
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
            is_loaded = getattr(module.weight, "_is_hf_initialized", False)
            if getattr(module, "padding_idx", None) is not None and not is_loaded:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, (AlibiBias, TransformerXlRelative)):
            for parameter in module.parameters(recurse=False):
                nn.init.normal_(parameter, std=std)
        elif hasattr(module, "reset_parameters"):  # of a position encoding
            module.reset_parameters()


class TupeModel(TupePreTrainedModel):
    """Hidden states from token ids. Position 0 is [CLS]; padding is on the right."""

    _auto_class = "AutoModel"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^classifier\.", r"^qa_outputs\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encoder = TupeEncoder(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None,
        output_attentions=None, output_hidden_states=None, return_dict=None, **kwargs,
    ):  # fmt: skip
        """The arguments are transformers' usual ones; 0 in ``attention_mask`` (B, L) is padding.

        It is on the right; while the model is compiled or traced this is not checked.
        """
        unknown = [name for name, value in kwargs.items() if value is not None]
        if unknown:
            why = "it has one type of tokens, and counts their positions itself"
            why = NO_HEAD_MASK if unknown == ["head_mask"] else why
            raise TypeError(f"the model takes no {', '.join(unknown)}: {why}")
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        mask = self.mask_of(input_ids, attention_mask)
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(
                f"attention_mask is {tuple(mask.shape)}, but must be (B, L), {tuple(x.shape[:2])}"
            )
        length, longest = x.size(1), self.config.max_position_embeddings
        is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing() or x.is_meta
        is_too_long = (
            POSITION_ENCODINGS[self.config.position_encoding].has_table and length > longest
        )
        if mask is not None and not is_traced:
            if length == 0:
                raise ValueError("the sequences are empty; each needs at least 1 token")
            if (mask.any(1) & ~mask[:, 0]).any():
                raise ValueError("a sequence begins with padding, not with [CLS]; pad on the right")
            is_too_long = is_too_long and mask[:, longest:].any()
            mask = None if mask.all() else mask
        if is_too_long:
            raise ValueError(f"{length} tokens, but the model has {longest} positions; truncate")
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        return self.encoder(x, mask, output_attentions, output_hidden_states)

    def mask_of(self, input_ids, attention_mask) -> Tensor | None:
        """True where there is a token, (B, L)."""
        if attention_mask is not None:
            return attention_mask != 0
        return None if input_ids is None else input_ids != self.config.pad_token_id


class TupeLMHead(nn.Module):
    def __init__(self, config: TupeConfig):
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(x))))


class TupeForMaskedLM(TupePreTrainedModel):
    _auto_class = "AutoModelForMaskedLM"
    _tied_weights_keys = {"lm_head.decoder.weight": "tupe.embed_tokens.weight"}
    _keys_to_ignore_on_load_unexpected = [r"^classifier\.", r"^qa_outputs\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.lm_head = TupeLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None, **kwargs,
    ):  # fmt: skip
        """``labels`` (B, L) are -100 where no word is to be predicted."""
        asked = (inputs_embeds, output_attentions, output_hidden_states)
        out = self.tupe(input_ids, attention_mask, *asked, return_dict=True, **kwargs)
        logits, loss = self.lm_head(out.last_hidden_state), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return MaskedLMOutput(loss, logits, out.hidden_states, out.attentions)


class TupeClassificationHead(nn.Module):
    """fairseq's: a hidden layer on the first token, or with ``classifier_pooling`` mean on all."""

    def __init__(self, config: TupeConfig, outputs: int | None = None):
        super().__init__()
        self.pooling = chosen(config, "classifier_pooling", ("cls", "mean"))
        self.activation = ACTIVATIONS[chosen(config, "pooler_activation", ACTIVATIONS)]
        self.dropout = nn.Dropout(config.head_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_proj = nn.Linear(config.hidden_size, outputs or config.num_labels)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if self.pooling == "cls":
            x = x[:, 0]
        else:
            mask = x.new_ones(x.shape[:2]) if mask is None else mask
            share = mask / mask.sum(1, keepdim=True).clamp(min=1)
            x = (x.float() * share[:, :, None]).sum(1).to(x.dtype)
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(x)))))


class TupeForSequenceClassification(TupePreTrainedModel):
    _auto_class = "AutoModelForSequenceClassification"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None, **kwargs,
    ):  # fmt: skip
        """``labels``: (B) classes or scores, or (B, num_labels) for independent labels."""
        asked = (inputs_embeds, output_attentions, output_hidden_states)
        out = self.tupe(input_ids, attention_mask, *asked, return_dict=True, **kwargs)
        mask = self.tupe.mask_of(input_ids, attention_mask)
        logits, loss, config = self.classifier(out.last_hidden_state, mask), None, self.config
        if labels is not None:
            if config.problem_type is None:
                classes = labels.dtype in (torch.long, torch.int)
                many = "single_label_classification" if classes else "multi_label_classification"
                config.problem_type = "regression" if config.num_labels == 1 else many
            kind = chosen(config, "problem_type", PROBLEM_TYPES)
            if kind == "regression":
                loss = F.mse_loss(logits.flatten().float(), labels.flatten().float())
            elif kind == "single_label_classification":
                loss = F.cross_entropy(logits.float(), labels.flatten())
            else:
                loss = F.binary_cross_entropy_with_logits(logits.float(), labels.float())
        return SequenceClassifierOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForMultipleChoice(TupePreTrainedModel):
    _auto_class = "AutoModelForMultipleChoice"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config, outputs=1)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None, **kwargs,
    ):  # fmt: skip
        """Each of C candidates with the question: ids (B, C, L), ``inputs_embeds`` (B, C, L, D).

        ``labels`` (B) are the right ones.
        """
        flat = [
            x if x is None else x.flatten(0, 1) for x in (input_ids, attention_mask, inputs_embeds)
        ]
        asked = (output_attentions, output_hidden_states)
        out = self.tupe(*flat, *asked, return_dict=True, **kwargs)
        scores = self.classifier(out.last_hidden_state, self.tupe.mask_of(*flat[:2]))
        candidates = (input_ids if inputs_embeds is None else inputs_embeds).size(1)
        logits, loss = scores.view(-1, candidates), None
        if labels is not None:
            loss = F.cross_entropy(logits.float(), labels.flatten())
        return MultipleChoiceModelOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForTokenClassification(TupePreTrainedModel):
    _auto_class = "AutoModelForTokenClassification"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None, **kwargs,
    ):  # fmt: skip
        """``labels`` (B, L) are -100 for tokens without a label."""
        asked = (inputs_embeds, output_attentions, output_hidden_states)
        out = self.tupe(input_ids, attention_mask, *asked, return_dict=True, **kwargs)
        logits, loss = self.classifier(self.dropout(out.last_hidden_state)), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return TokenClassifierOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForQuestionAnswering(TupePreTrainedModel):
    _auto_class = "AutoModelForQuestionAnswering"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^classifier\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, start_positions=None,
        end_positions=None, output_attentions=None, output_hidden_states=None, return_dict=None,
        **kwargs,
    ):  # fmt: skip
        """Positions (B) beyond the sequence have no loss."""
        asked = (inputs_embeds, output_attentions, output_hidden_states)
        out = self.tupe(input_ids, attention_mask, *asked, return_dict=True, **kwargs)
        start, end = self.qa_outputs(out.last_hidden_state).unbind(-1)
        loss, length = None, start.size(1)
        if start_positions is not None and end_positions is not None:
            ends = ((start, start_positions), (end, end_positions))
            loss = sum(
                F.cross_entropy(x.float(), y.clamp(0, length), ignore_index=length) / 2
                for x, y in ends
            )
        return QuestionAnsweringModelOutput(loss, start, end, out.hidden_states, out.attentions)
