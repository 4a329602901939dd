"""Stable-Baselines3's SAC with hindsight prioritised replay; save and load as ever.

pip install 'hindsight-rl[robotics,sb3]'
python examples/sb3_buffer.py --steps 10000
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium
import gymnasium_robotics
import numpy as np
import tyro

from hindsight.integrations.sb3 import HindsightReplayBuffer, PrioritizedSAC


def main(env: str = "FetchReach-v4", steps: int = 10_000, episodes: int = 50) -> float:
    gymnasium.register_envs(gymnasium_robotics)
    world = gymnasium.make(env)
    model = PrioritizedSAC(  # without priorities, stable_baselines3.SAC
        "MultiInputPolicy",
        world,
        replay_buffer_class=HindsightReplayBuffer,
        replay_buffer_kwargs={
            "replay": {"replay_k": 4, "goals_chosen": "stored"},
            "priority": {"sampling": "rank", "queues": "two_queues"},
        },
        gamma=0.95,
        learning_rate=1e-3,
        ent_coef="auto_0.05",
        learning_starts=100,
        policy_kwargs={"net_arch": [128, 128]},
        seed=0,
    )
    model.learn(steps)

    with tempfile.TemporaryDirectory() as folder:  # the buffer keeps its priorities
        model.save(Path(folder, "model"))
        model.save_replay_buffer(Path(folder, "buffer"))
        model = PrioritizedSAC.load(Path(folder, "model"), env=world)
        model.load_replay_buffer(Path(folder, "buffer"))

    reached = []
    for episode in range(episodes):
        observation, _ = world.reset(seed=episode)
        over = False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, info = world.step(action)
            over = terminated or truncated
        reached.append(info["is_success"])
    print(f"success rate in {episodes} episodes: {np.mean(reached):.2f}")
    return float(np.mean(reached))


if __name__ == "__main__":
    tyro.cli(main)
