"""`make pretrained`: makes the policies that come with the library anew, each by its preset."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import tyro

from hindsight import pretrained
from hindsight.commands.train import Train
from hindsight.config import TrainConfig
from hindsight.errors import HindsightError

EPISODES = 1000
PRESETS = {"FetchPush-v4": "relay", "FetchPickAndPlace-v4": "relay"}
"""Of the tasks that another preset than the default solves better, or sooner."""
LIMIT = 1_000_000
"""Bytes of a policy."""


def pretrain(
    envs: tyro.conf.Positional[tuple[str, ...]] = (),
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None,
    seed: int = 0,
) -> None:
    """Train an env's preset, play 1,000 fresh episodes, and put the policy into the library.

    With --run, the policy of that finished run is taken instead. Without envs, those that the
    library has.
    """
    if run is not None:
        add(run)
        return
    for env in envs or pretrained.envs():
        path = Path("runs") / "pretrained" / f"{env}-seed{seed}"
        Train(env, preset=PRESETS.get(env, "default"), seed=seed, run_dir=path).run([])
        add(path)


def add(path: Path, directory: Path = pretrained.DIRECTORY, episodes: int = EPISODES) -> Path:
    """Put the policy of a finished run into the library, with what it reaches."""
    from hindsight import api
    from hindsight.training.policy import DESCRIPTION, TENSORS
    from hindsight.training.run import CONFIG, Run

    run = Run.open(path)
    config, summary = run.config, run.summary
    if summary["status"] != "finished":
        raise HindsightError(f"{path} is not finished")
    if (path / TENSORS).stat().st_size > LIMIT:
        raise HindsightError(f"the policy in {path} is larger than {LIMIT:,} bytes")
    result = api.evaluate(path, episodes)
    target = directory / config.env
    target.mkdir(exist_ok=True)
    for name in (CONFIG, DESCRIPTION, TENSORS):
        shutil.copyfile(path / name, target / name)
    results = {
        "success_rate": result.success_rate,
        "mean_return": result.mean_return,
        "episodes": result.episodes,
        "reproduced_by": f"hindsight eval {config.env} --pretrained --episodes {episodes}",
        "trained_by": _command(config),
        "made_by": f"make pretrained ENVS={config.env}",
        **{name: summary[name] for name in ("method", "steps", "minutes", "machine", "versions")},
    }
    (target / pretrained.RESULTS).write_text(json.dumps(results, indent=2) + "\n")
    print(f"{target}: success rate {result.success_rate:.3f} on {episodes:,} fresh episodes")
    return target


def _command(config: TrainConfig) -> str:
    """The command that trains with these settings: the env's preset, and what differs from it."""
    from hindsight import api
    from hindsight.envs.make import factory
    from hindsight.lab.reproduce.configs import changed, command
    from hindsight.lab.reproduce.experiment import Training
    from hindsight.precision import resolved
    from hindsight.settings import with_settings

    preset = PRESETS.get(config.env, "default")
    spec = api.describe(config.env, factory(config.env, config.env_kwargs))
    made = api.default_config(config.agent.method, spec, preset)
    own, presets = (
        with_settings(c, {"seed": config.seed, "agent.precision": resolved(c.agent.precision)})
        for c in (config, made)
    )
    other = {name: value for name, (value, _) in changed(own, presets).items()}
    training = Training("", config.env, preset, settings=other, env_kwargs=config.env_kwargs)
    return command(training, config.seed)


if __name__ == "__main__":
    tyro.cli(pretrain)
