"""Foreign checkpoints: reading them without running their code, and converting them."""
