"""Training on many machines, by Ray: the same loop, with collectors that are Ray actors."""
