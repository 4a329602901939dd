"""Videos of a policy at work, or a window where there is a screen; videos for a page."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.collect import episode_seeds
from hindsight.envs.contract import inspect
from hindsight.envs.make import Env, make
from hindsight.errors import HindsightError, needs
from hindsight.lab.groups import Group, tasks
from hindsight.lab.runs import LoadedRun
from hindsight.training.evaluate import FRESH
from hindsight.training.policy import Policy
from hindsight.training.trust import is_made_here, names_code
from hindsight.types import Array

_GIF = [
    "-filter_complex",
    "fps='min(source_fps,15)',scale='min(320,iw)':-2:flags=lanczos,split[a][b];"
    "[a]palettegen=max_colors=64:stats_mode=diff[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
]
"""A GIF that a page can hold: small, of few colours that fit all its frames."""
WIDTH = 360
"""Pixels: of a picture at least, and of a video on a page at most."""
NO_RENDERING = (
    "cannot render ({}): without a screen MuJoCo draws through EGL or OSMesa; install one "
    "(Debian: libegl1 or "
    "libosmesa6) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"
)


def play(policy: Policy, env: Env, episodes: int, seed: int, horizon: int) -> Iterator[bool]:
    """Play some episodes; after every reset and step, whether the episode is a success so far."""
    for episode_seed in episode_seeds(seed, FRESH, 0, episodes):
        observation, _ = env.reset(seed=episode_seed)
        yield False
        for _ in range(horizon):
            observation, _, terminated, truncated, info = env.step(policy(observation))
            yield bool(info.get("is_success", info.get("success", False)))
            if terminated or truncated:
                break


def record(
    policy: Policy,
    make_env: Callable[..., Env],
    path: Path,
    episodes: int,
    seed: int,
    horizon: int,
    small: bool = False,
) -> Path:
    """Write a video of some episodes; the frame turns green on success. Small: at most 360
    pixels wide, coarser."""
    if path.suffix not in (".mp4", ".mkv", ".mov", ".gif"):
        raise HindsightError(
            f"cannot write {path}: the name of a video ends in .mp4, .mkv, .mov or .gif"
        )
    if not path.parent.is_dir():
        raise HindsightError(f"cannot write {path}: there is no directory {path.parent}")
    with needs("report"):
        from imageio_ffmpeg import write_frames
    env = make_env(render_mode="rgb_array")
    fps = int(env.metadata.get("render_fps", 25))
    os.environ.setdefault(
        "IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1"
    )  # else it forks, which JAX's threads do not survive
    successes = play(policy, env, episodes, seed, horizon)
    next(successes)
    first = _picture(env)
    fewer = ["-vf", f"scale='min({WIDTH},iw)':-2", "-crf", "30", "-preset", "slow"] if small else []
    gif = path.suffix == ".gif"
    frame = _framed(first, False)
    writer = write_frames(
        str(path),
        frame.shape[1::-1],
        fps=fps,
        codec="gif" if gif else "libx264",
        pix_fmt_out="pal8" if gif else "yuv420p",
        ffmpeg_log_level="error",
        output_params=_GIF if gif else fewer,
    )
    writer.send(None)
    with contextlib.closing(writer):
        writer.send(frame)
        for success in successes:
            writer.send(_framed(_picture(env), success))
    env.close()
    return path


def _picture(env: Env) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return env.render()
    except Exception as error:  # every OpenGL binding fails in its own way
        raise HindsightError(NO_RENDERING.format(" ".join(str(error).split())[:120])) from None


def has_screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def has_window(make_env: Callable[..., Env]) -> bool:
    """Whether the env can show itself in a window."""
    return "human" in make_env().metadata.get("render_modes", [])


def window(
    policy: Policy, make_env: Callable[..., Env], episodes: int, seed: int, horizon: int
) -> None:
    """Show some episodes in a window."""
    if not has_screen():
        raise HindsightError("there is no screen: leave out --window to write a video file")
    if not has_window(make_env):
        raise HindsightError(
            f"{policy.env} cannot be shown in a window: leave out --window to write a video file"
        )
    env = make_env(render_mode="human")
    for _ in play(policy, env, episodes, seed, horizon):
        pass
    env.close()


def _framed(image: Any, success: bool) -> Array:
    """The image with a border, padded to even sizes that every player can show. A small one is
    enlarged, and a flat one stands in the middle: a player's controls would hide it."""
    frame = np.asarray(image, np.uint8)
    times = -(-WIDTH // frame.shape[1])
    frame = frame.repeat(times, axis=0).repeat(times, axis=1)
    height, width = frame.shape[:2]
    above = max(width // 2 - height, 0) // 2
    below = above + -(height + 2 * above) % 16
    frame = np.pad(frame, ((above, below), (0, -width % 16), (0, 0)), constant_values=255)
    if success:
        for edge in (frame[:6], frame[-6:], frame[:, :6], frame[:, -6:]):
            edge[...] = (0, 158, 115)
    return frame


@dataclass(frozen=True)
class PolicyVideo:
    """A small mp4 of the policy of a run, or why there is none."""

    label: str
    seed: int
    success: float
    base64: str
    problem: str = ""
    episodes: int = 4


def best_policies(groups: Sequence[Group]) -> dict[str, PolicyVideo]:
    """For each env a video of the policy with the highest success at its last evaluation."""
    found = {}
    for task, members in tasks(groups).items():
        runs = [(g, run) for g in members for run in g.runs if run.final is not None]
        if runs:
            best, run = max(runs, key=lambda pair: (pair[1].final, pair[0].final.value))  # type: ignore[union-attr]
            found[task] = _policy_video(best.label, run)
    return found


def _policy_video(label: str, run: LoadedRun) -> PolicyVideo:
    config, success = run.config, run.final or 0.0
    make_env = partial(make, config.env, **config.env_kwargs)
    try:
        if names_code(config.env) and not is_made_here(run.path, config.env, config.env_kwargs):
            raise HindsightError(
                "it was not made here, and its env is code to import: see hindsight watch --trust"
            )
        horizon = inspect(make_env(), config.env, config.max_episode_steps).horizon
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "video.mp4"
            record(run.run.policy, make_env, path, PolicyVideo.episodes, 0, horizon, small=True)
            return PolicyVideo(
                label, config.seed, success, base64.b64encode(path.read_bytes()).decode()
            )
    except (
        Exception
    ) as error:  # a broken policy, an env that is not here, a machine that cannot render: go on
        return PolicyVideo(
            label, config.seed, success, "", " ".join(str(error).split()) or type(error).__name__
        )
