"""Replay: storage of episodes, samplers of transitions, and their composition with a goal rule."""
