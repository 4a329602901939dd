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
from hindsight.presets import VARIANTS

GOALS = {
    "hindsight/BitFlip": "flip bits to a pattern",
    "hindsight/EmptyRoom": "walk to a cell",
    "hindsight/FourRooms": "walk to a cell, through doors",
    "hindsight/PixelRoom": "walk to a place, by pixels",
    "hindsight/PointPush": "push a disc to a place",
    "FetchReach": "move the gripper to a place",
    "FetchPush": "push a box to a place",
    "FetchSlide": "slide a puck out of reach",
    "FetchPickAndPlace": "lift a box to a place",
    "HandReach": "move the fingertips to places",
    "HandManipulateBlock": "turn a block in the hand",
    "HandManipulateEgg": "turn an egg in the hand",
    "HandManipulatePen": "turn a pen in the hand",
    "PointMaze": "roll a ball through a maze",
    "AntMaze": "walk an ant through a maze",
    "parking": "park a car",
    "PandaReach": "move the gripper to a place",
    "PandaPush": "push a box to a place",
    "PandaSlide": "slide a puck to a place",
    "PandaPickAndPlace": "lift a box to a place",
    "PandaStack": "stack two boxes",
}
"""What is to be done, by how an env's id begins."""
DISCRETE = tuple(f"hindsight/{name}" for name in ("BitFlip", "EmptyRoom", "FourRooms", "PixelRoom"))
PANDA = ("Reach", "Push", "Slide", "PickAndPlace", "Stack")
OTHERS = {"highway_env": ("parking-v0",), "panda_gym": tuple(f"Panda{x}-v3" for x in PANDA)}
"""Envs of modules that take long to import, and talk."""


def listed_envs() -> list[tuple[str, str]]:
    """The goal envs that are installed, each in its newest version, and their goals."""
    from importlib.util import find_spec

    import gymnasium as gym

    newest: dict[tuple[str | None, str], tuple[int, str]] = {}
    for env_id, spec in gym.registry.items():
        key = (spec.namespace, spec.name)
        newest[key] = max(newest.get(key, (-1, "")), (spec.version or 0, env_id))
    others = {i for module, ids in OTHERS.items() if find_spec(module) for i in ids}
    known = others | {i for _, i in newest.values() if not i.startswith(("parking", "Panda"))}
    ids = sorted(i for i in known if not any(word in i for word in VARIANTS))
    return [(i, goal) for start, goal in GOALS.items() for i in ids if i.startswith(start)]


@dataclass
class Envs:
    """List the goal envs that are installed: the goal, and what `hindsight train ENV` reaches."""

    def run(self, more: Sequence[str]) -> int:
        from rich.console import Console
        from rich.table import Table

        from hindsight.envs.make import register_robotics
        from hindsight.presets import Task, default_method, reaches

        robotics = register_robotics()
        table = Table(box=None, pad_edge=False)
        for name in ("task", "goal", "success", "seeds", "minutes"):
            table.add_column(name, no_wrap=True)
        for env_id, goal in listed_envs():
            task = Task(env_id, discrete=env_id.startswith(DISCRETE))
            text = reaches(task, default_method(task))
            patterns = (r"success ([\d.-]+)", r"\((\d+) seeds?\)", r"in (.*) minutes")
            success, seeds, minutes = (
                found[1] if (found := re.search(pattern, text)) else "" for pattern in patterns
            )
            table.add_row(env_id, goal, success, seeds, minutes.replace("less than", "<"))
        console = Console()
        # A pipe has no width: nothing is to be cut.
        (console if console.is_terminal else Console(width=120)).print(table, highlight=False)
        print("\nSuccess and minutes as measured with the defaults; docs/results.md has more.")
        print(f"Variants can be trained, too: {', '.join(VARIANTS)}.")
        if not robotics:
            print(
                "Fetch, Hand and mazes need the robotics extra: "
                "pip install 'hindsight-rl[robotics]'"
            )
        print(
            "Any other Gymnasium env with observation, achieved_goal, desired_goal and "
            "compute_reward will do."
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
        print("  hindsight train FetchPush-v4             push a box to a goal: a few minutes")
        print("  hindsight train --help                   the options; --help-all every setting")
        return 0 if result.success_rate >= 0.95 else 1
