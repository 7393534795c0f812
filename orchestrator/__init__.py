"""tune: find the best SGLang server flags on your own box, under systemd, without losing production."""

__version__ = "0.1.0"
