"""Commands that are too long for cli.py."""
