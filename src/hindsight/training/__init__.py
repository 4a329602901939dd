"""Training loops, evaluation, and the run directory."""
