"""The commands about this machine: envs, doctor, demo."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from hindsight.commands.runs import Watch
from hindsight.commands.train import Train
from hindsight.errors import HindsightError
from hindsight.options import refuse_unknown, take_env_kwargs


@dataclass
class Envs:
    """List the goal envs that are installed."""

    def run(self, more: Sequence[str]) -> int:
        import gymnasium as gym

        from hindsight.envs.make import register_robotics

        if not register_robotics():
            print("Fetch and Hand need the robotics extra: pip install 'hindsight-rl[robotics]'")
        ours = (
            "hindsight/",
            "FetchReach-v4",
            "FetchPush-v4",
            "FetchSlide-v4",
            "FetchPickAndPlace-v4",
        )
        hands = re.compile(r"Hand(Reach|Manipulate(Block|Egg|Pen)\w*)-v\d+$")
        for env_id in sorted(gym.registry):
            if env_id.startswith(ours) or (
                hands.match(env_id) and "Touch" not in env_id and "Dense" not in env_id
            ):
                print(env_id)
        print(
            "...and any Gymnasium env with observation, achieved_goal, desired_goal and "
            "compute_reward"
        )
        return 0


@dataclass
class Doctor:
    """Check the installation, and the goal-env contract of an env."""

    env: Annotated[str | None, Positional, arg(metavar="ENV", help_behavior_hint="")] = None
    """An env id to check. Arguments for its constructor: --env.NAME VALUE."""
    max_episode_steps: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Time limit, for envs that have none of their own."""

    def run(self, more: Sequence[str]) -> int:
        from hindsight.doctor import examine

        rest, env_kwargs = take_env_kwargs(more)
        refuse_unknown(rest, vars(self), "hindsight doctor")
        return examine(self.env, env_kwargs, self.max_episode_steps)


@dataclass
class Demo:
    """Train an arm to reach, evaluate it, and make a video and a learning curve."""

    seed: int = 0

    def run(self, more: Sequence[str]) -> int:
        from hindsight import api

        names = (Path("runs") / ("demo" if i == 1 else f"demo-{i}") for i in range(1, 10**6))
        path = next(name for name in names if not name.exists())
        print(
            "Training a Fetch arm to reach a point, with hindsight experience replay (about a "
            "minute) ..."
        )
        Train("FetchReach-v4", run_dir=path, seed=self.seed).run([])
        result = api.evaluate(path)
        print(f"\nsuccess rate on {result.episodes} fresh episodes: {result.success_rate:.2f}")
        try:
            print(f"video:          {Watch(path, output=path / 'video.mp4').show()}")
        except HindsightError as error:
            print(f"no video: {error}")
        print(f"learning curve: {path / 'learning_curve.png'}")
        print("\nWhat to try next (`source .venv/bin/activate` first):")
        print("  hindsight train hindsight/BitFlip-v0     flip bits: seconds")
        print(
            "  hindsight train FetchPush-v4             push a box to a goal: about seven minutes"
        )
        print("  hindsight train --help                   the options; --help-all every setting")
        return 0 if result.success_rate >= 0.95 else 1
