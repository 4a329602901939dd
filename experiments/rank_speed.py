"""Rank-based sampling: one growing array instead of a table per size, and the buffers of other
libraries."""

from hindsight.lab.reproduce.experiment import Experiment, Measurement

EXPERIMENT = Experiment(
    order=10,
    title="The speed of rank-based sampling, at a million transitions",
    where="App. C",
    entries=(Measurement("replay", "replay", minutes=3.0),),
    figure="speed",
    note="The paper's speed-up is about 1,000, for the same change.",
)
