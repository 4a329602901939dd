"""DQN in four rooms: with hindsight and without, and what its network must see."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training


def training(slug: str, label: str, settings: dict[str, Any]) -> Training:
    return Training(
        slug,
        "hindsight/FourRooms-v0",
        method="dqn",
        settings=settings,
        seeds=(0, 1, 2, 3, 4),
        label=label,
        episodes=500,
    )


EXPERIMENT = Experiment(
    order=20,
    title="DQN in four rooms",
    where="ours",
    entries=(
        training("hindsight", "DQN with hindsight (the base)", {}),
        training("none", "no hindsight", {"replay.replay_k": 0.0}),
        training("plain", "no Fourier features", {"agent.fourier_features": 0}),
    ),
    columns=("label", "by_seed", "estimate", "area", "against", "soon", "steps", "command"),
    base="hindsight",
)
