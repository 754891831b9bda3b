"""What several tests share; ``running`` and ``training`` come first."""
