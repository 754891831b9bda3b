"""Code that several tests share; read ``running`` and ``training`` first."""
