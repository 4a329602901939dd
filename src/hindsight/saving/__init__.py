"""Saving what a training is made of: states as trees, files that are there whole or not at all,
checkpoints."""
