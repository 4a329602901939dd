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
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hindsight.collect import episode_seeds
from hindsight.envs.contract import inspect
from hindsight.envs.make import Env, make
from hindsight.errors import HindsightError, needs, of_the_env
from hindsight.lab.groups import Group, tasks
from hindsight.lab.runs import LoadedRun
from hindsight.lab.scene import mark, set_up
from hindsight.training.evaluate import FRESH
from hindsight.training.policy import Policy
from hindsight.training.trust import is_made_here, names_code
from hindsight.types import Array

_GIF = [
    "-filter_complex",
    "fps='min(source_fps,12.5)',scale='min(400,iw)':-2:flags=lanczos,split[a][b];"
    "[a]palettegen=max_colors=64:stats_mode=diff[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
]
"""A GIF that a page can hold: small, of few colours that fit all its frames."""
WIDTH = 480
"""Pixels: of a picture at least, and of a video on a page at most."""
STILL = 0.6
"""Seconds for which the end of an episode stays."""
GREEN, DARK = (0, 126, 92), (33, 37, 41)
NO_RENDERING = (
    "cannot render ({}): without a screen MuJoCo draws through EGL or OSMesa; install one "
    "(Debian: libegl1 or "
    "libosmesa6) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"
)


class Shot(NamedTuple):
    """What a frame shows, in words."""

    episode: int
    distance: str
    success: bool
    ended: bool = False


def play(policy: Policy, env: Env, episodes: int, seed: int, horizon: int) -> Iterator[Shot]:
    """Play some episodes; what is to be seen after every reset and step."""
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    for number, episode_seed in enumerate(episode_seeds(seed, FRESH, 0, episodes), 1):
        with of_the_env(f"{name}: reset()"):
            observation, _ = env.reset(seed=episode_seed)
        yield Shot(number, distance(env, observation), False)
        for step in range(1, horizon + 1):
            action = policy(observation)
            with of_the_env(f"{name}: step()"):
                observation, _, terminated, truncated, info = env.step(action)
            success = bool(info.get("is_success", info.get("success", False)))
            ended = terminated or truncated or step == horizon
            yield Shot(number, distance(env, observation), success, ended)
            if ended:
                break


def distance(env: Env, observation: Any) -> str:
    """How far the goal is: places and angles of a hand's object, differing entries of a discrete
    goal, else the Euclidean distance. Empty if a goal is no array."""
    achieved, desired = (
        np.asarray(observation[f"{kind}_goal"]) for kind in ("achieved", "desired")
    )
    of_hand = getattr(env.unwrapped, "_goal_distance", None)
    if of_hand is not None:
        place, angle = (float(found) for found in of_hand(achieved, desired))
        return f"distance {place:.3f}, {angle:.2f} rad"
    if achieved.dtype == object or achieved.shape != desired.shape:
        return ""
    if not np.issubdtype(achieved.dtype, np.floating):
        return f"distance {np.count_nonzero(achieved != desired)}"
    return f"distance {np.linalg.norm(achieved - desired):.3f}"


def record(
    policy: Policy,
    make_env: Callable[..., Env],
    path: Path,
    episodes: int,
    seed: int,
    horizon: int,
    small: bool = False,
) -> Path:
    """Write a video of some episodes, captioned; whole, or not at all. Small: at most 480 pixels
    wide, coarser."""
    if path.suffix not in (".mp4", ".mkv", ".mov", ".gif"):
        raise HindsightError(
            f"cannot write {path}: the name of a video ends in .mp4, .mkv, .mov or .gif"
        )
    if not path.parent.is_dir():
        raise HindsightError(f"cannot write {path}: there is no directory {path.parent}")
    with needs("report"):
        from imageio_ffmpeg import write_frames
    modes = make_env().metadata.get("render_modes") or []
    if "rgb_array" not in modes:
        raise HindsightError(
            f"{policy.env} does not draw itself: a video needs render_mode 'rgb_array', and its "
            f"metadata has {'only ' + ', '.join(modes) if modes else 'no render_modes'}"
        )
    env = make_env(render_mode="rgb_array")
    set_up(env, policy.env)
    fps = int(env.metadata.get("render_fps", 25))
    os.environ.setdefault(
        "IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1"
    )  # else it forks, which JAX's threads do not survive
    fewer = ["-vf", f"scale='min({WIDTH},iw)':-2", "-crf", "30", "-preset", "slow"] if small else []
    gif = path.suffix == ".gif"

    def frames() -> Iterator[Array]:
        for shot in play(policy, env, episodes, seed, horizon):
            mark(env, shot.success)
            frame = captioned(_picture(env), shot, episodes)
            yield from [frame] * (1 + shot.ended * round(STILL * fps))

    every = frames()
    first = next(every)
    aside = path.with_name(f"{path.stem}.part{path.suffix}")  # its suffix says its format
    writer = write_frames(
        str(aside),
        first.shape[1::-1],
        fps=fps,
        codec="gif" if gif else "libx264",
        pix_fmt_out="pal8" if gif else "yuv420p",
        ffmpeg_log_level="error",
        output_params=_GIF if gif else fewer,
    )
    try:
        with contextlib.closing(env), contextlib.closing(writer):
            writer.send(None)
            for frame in chain([first], every):
                writer.send(frame)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
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
    set_up(env, policy.env)
    for shot in play(policy, env, episodes, seed, horizon):
        mark(env, shot.success)
    env.close()


def captioned(image: Any, shot: Shot, episodes: int) -> Array:
    """The image below a caption, padded to even sizes that every player can show. A small one is
    enlarged, and a flat one stands in the middle: a player's controls would hide it."""
    frame = np.asarray(image, np.uint8)
    times = -(-WIDTH // frame.shape[1])
    frame = frame.repeat(times, axis=0).repeat(times, axis=1)
    height, width = frame.shape[:2]
    bar = width // 15
    around = max(width // 2 - bar - height, 0)
    above = bar + around // 2
    below = around - around // 2 + -(height + bar + around) % 16
    frame = np.pad(frame, ((above, below), (0, -width % 16), (0, 0)), constant_values=255)
    frame[:bar] = GREEN if shot.success else DARK

    drawn = Image.fromarray(frame)
    draw, font = ImageDraw.Draw(drawn), ImageFont.load_default(bar * 0.58)
    middle, edge = bar // 2, bar // 3
    text = f"episode {shot.episode} of {episodes}    {shot.distance}"
    draw.text((edge, middle), text, "white", font, "lm")
    if shot.success:
        draw.text((width - edge, middle), "SUCCESS", "white", font, "rm")
    return np.asarray(drawn)


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
