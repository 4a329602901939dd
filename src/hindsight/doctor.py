"""`hindsight doctor`: checks what usually goes wrong, and says what to do about it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from typing import Any

from hindsight.api import default_config, task_of
from hindsight.config import OffPolicyConfig
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import check_mujoco, make, register_robotics
from hindsight.errors import HindsightError
from hindsight.presets import preset_rows
from hindsight.training.conditions import jax_threads
from hindsight.training.run import machine, versions

_REPORT = ("imageio_ffmpeg", "jinja2", "matplotlib", "scipy")
"""What the report extra brings."""
_RENDER = """
from hindsight.envs.make import make
env = make({env!r}, render_mode="rgb_array")
env.reset(seed=0)
image = env.render()
assert image.ndim == 3 and image.std() > 0, "the picture is empty"
"""


def examine(
    env_id: str | None,
    env_kwargs: dict[str, Any] | None = None,
    max_episode_steps: int | None = None,
) -> int:
    """Print a line per check; 0 if all are well, else 2."""
    well = True

    def report(ok: bool, text: str) -> None:
        nonlocal well
        well &= ok
        print(f"{'ok  ' if ok else 'FAIL'}  {text}")

    info = machine()
    report(
        sys.version_info >= (3, 11),
        f"Python {info['python']} on {info['system']}, {info['cpu']}, {info['cores']} cores",
    )
    report(True, ", ".join(f"{name} {number}" for name, number in versions().items()))
    threads = os.environ.get("XLA_FLAGS", "")
    report(
        True,
        f"JAX learns on {jax_threads()} threads (PJRT_NPROC), envs are simulated on "
        f"{info['cores']} (--workers)" + (f" (XLA_FLAGS={threads})" if threads else ""),
    )
    robotics = register_robotics()
    if robotics:
        try:
            check_mujoco()
            report(True, "MuJoCo and Gymnasium-Robotics fit together")
        except HindsightError as error:
            report(False, str(error))
            robotics = False
    else:
        print("--    no Fetch and Hand envs: pip install 'hindsight-rl[robotics]'")
    if robotics:
        report(*_rendering("FetchReach-v4"))
    missing = [name for name in _REPORT if importlib.util.find_spec(name) is None]
    if missing:
        print("--    no videos, curves and pages: pip install 'hindsight-rl[report]'")
    if env_id is not None:
        for ok, text in _contract(env_id, env_kwargs or {}, max_episode_steps):
            report(ok, text)
    return 0 if well else 2


def _rendering(env_id: str) -> tuple[bool, str]:
    """Render in a process of its own: a broken OpenGL can take the process with it."""
    command = [sys.executable, "-c", _RENDER.format(env=env_id)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return False, "rendering hangs: try MUJOCO_GL=egl or MUJOCO_GL=osmesa"
    backend = os.environ.get("MUJOCO_GL", "the default")
    if result.returncode == 0:
        return True, f"rendering works (MUJOCO_GL={backend})"
    last = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
    return False, (
        f"rendering fails with MUJOCO_GL={backend} ({last[:100]}): install libegl1 or libosmesa6 "
        "and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"
    )


def _contract(
    env_id: str, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> list[tuple[bool, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            spec = inspect(make(env_id, **env_kwargs), env_id, max_episode_steps)
        except HindsightError as error:
            return [(False, str(error))]
    actions = (
        f"{spec.actions.choices} discrete actions"
        if spec.actions.discrete
        else f"{spec.actions.dim} continuous actions"
    )
    reward = "sparse" if spec.success_reward is not None else "dense"
    ends = (
        "recomputed"
        if spec.goal_terminated is not None
        else "learnt from successes that end an episode"
    )
    achieved = ""
    if spec.observation.achieved_dim:
        achieved = " (without the achieved goal: the policy is given both)"
    lines = [
        (
            True,
            f"{env_id} keeps the goal-env contract: observation {spec.observation.own_dim}"
            f"{achieved}, goal {spec.goal.dim}, "
            f"{actions}, {spec.horizon} steps, {reward} reward, terminated of alternate goals "
            f"{ends}, "
            f"{spec.step_seconds * 1e3:.2f} ms per step",
        )
    ]
    notes = [(True, f"note: {w.message}") for w in caught if issubclass(w.category, UserWarning)]
    return lines + notes + [(True, text) for text in chosen(spec)]


def chosen(spec: GoalEnvSpec) -> list[str]:
    """What `hindsight train` would do with the env, and why."""
    task = task_of(spec)
    config = default_config(None, spec)
    assert isinstance(config, OffPolicyConfig)
    updates = config.updates_of_cycle(spec.horizon)
    per_step = updates / (config.episodes_per_cycle * spec.horizon)
    gamma = config.agent.gamma or 1.0 - 1.0 / spec.horizon
    found = [
        f"hindsight train {spec.id}: {config.agent.method}, {config.steps:,} steps, "
        f"{per_step:.3g} updates per step, {config.episodes_per_cycle} episodes per cycle, "
        f"batches of {config.batch_size}, gamma {gamma:.4g}"
    ]
    reasons = [row.why for row in preset_rows(task, config.agent.method) if row.why]
    if task.tuned:
        reasons = ["settings written for this env by hand (docs/results.md says what is measured)"]
    return found + [f"because: {why}" for why in reasons]
