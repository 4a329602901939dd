"""A small video of the best policy of an env, to be put into a page."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hindsight.envs.contract import inspect
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.report.groups import Group, tasks
from hindsight.report.load import LoadedRun
from hindsight.training.trust import is_made_here, names_code

EPISODES = 4


@dataclass(frozen=True)
class Film:
    """A video as mp4, or why there is none."""

    label: str
    seed: int
    success: float
    episodes: int
    video: bytes
    problem: str = ""


def films(groups: Sequence[Group]) -> dict[str, Film]:
    """For each env a film of the policy with the highest success at its last evaluation; of equals, the first."""
    found = {}
    for task, members in tasks(groups).items():
        runs = [(g, run) for g in members for run in g.runs if run.final is not None]
        if runs:
            best, run = max(
                runs, key=lambda pair: (pair[1].final or 0.0, pair[0].final.value if pair[0].final else 0.0)
            )
            found[task] = _film(best.label, run)
    return found


def _film(label: str, run: LoadedRun) -> Film:
    try:
        video, problem = _record(run), ""
    except Exception as error:  # a policy that is broken, an env that is not here, a machine that cannot render: go on
        video, problem = b"", " ".join(str(error).split()) or type(error).__name__
    return Film(label, run.config.seed, run.final or 0.0, EPISODES, video, problem)


def _record(run: LoadedRun) -> bytes:
    from hindsight.report import video  # needs imageio, which a machine that cannot film may lack

    config = run.config
    if names_code(config.env) and not is_made_here(run.path, config.env, config.env_kwargs):
        raise HindsightError("it was not made here, and its env is code to import: see hindsight watch --trust")
    make_env = partial(make, config.env, **config.env_kwargs)
    horizon = inspect(make_env(), config.env, config.max_episode_steps).horizon
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "video.mp4"
        video.record(run.run.policy, make_env, path, EPISODES, 0, horizon, small=True)
        return path.read_bytes()
