"""Benchmarks: this library, its peers and the machine's limit in one run, as ratios."""
