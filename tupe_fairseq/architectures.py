"""The values of --arch that are tupe_roberta's, and their sizes."""

from typing import Dict, Tuple

BASE = (12, 768, 12)
#: --arch -> layers, width, heads
ARCHITECTURES: Dict[str, Tuple[int, int, int]] = {
    "tupe_roberta_base": BASE,
    "tupe_roberta": BASE,
    "tupe_roberta_tiny": (2, 128, 2),
    "tupe_roberta_mini": (4, 256, 4),
    "tupe_roberta_small": (4, 512, 8),
    "tupe_roberta_medium": (8, 512, 8),
    "tupe_roberta_large": (24, 1024, 16),
}
