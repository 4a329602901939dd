"""Train a policy, evaluate it, load it, and use it.

python examples/first_run.py --steps 10000
"""

from __future__ import annotations

import gymnasium
import tyro

import hindsight


def main(env: str = "hindsight/BitFlip-v0", steps: int = 10_000, seed: int = 0) -> float:
    run = hindsight.train(env, steps=steps, seed=seed)
    print(run)

    result = hindsight.evaluate(run.path, episodes=100)
    print(f"success rate on {result.episodes} fresh episodes: {result.success_rate:.2f}")

    policy = hindsight.load(run.path)  # needs no JAX, runs no code of the run
    world = gymnasium.make(env)
    observation, _ = world.reset(seed=7)
    over = False
    while not over:
        observation, _, terminated, truncated, info = world.step(policy(observation))
        over = terminated or truncated
    print("the last episode was a", "success" if info["is_success"] else "failure")
    return result.success_rate


if __name__ == "__main__":
    tyro.cli(main)
