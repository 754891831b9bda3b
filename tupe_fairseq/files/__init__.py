"""Writing so that an interruption, or a full disk, leaves nothing half-written behind."""
