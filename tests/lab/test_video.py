"""Videos: frames that are large enough, captions, cameras, and physics that nothing of it moves."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.lab.scene import REACHED, TO_REACH, mark, set_up
from hindsight.lab.video import DARK, GREEN, WIDTH, Shot, captioned, distance, play, record

UNDER_WAY = Shot(1, "distance 0.123", success=False)


@pytest.mark.parametrize("size", [(64, 256), (64, 128), (352, 352), (480, 480), (37, 61), (1, 1)])
def test_a_frame_is_large_and_not_flat(size: tuple[int, int]) -> None:
    frame = captioned(np.zeros((*size, 3), np.uint8), UNDER_WAY, 4)
    height, width = frame.shape[:2]
    assert (height % 16, width % 16) == (0, 0)
    assert width >= WIDTH
    assert height >= width // 2 - 16


def test_a_flat_picture_is_enlarged_whole_and_stands_in_the_middle() -> None:
    image = np.arange(64 * 256 * 3, dtype=np.uint8).reshape(64, 256, 3)
    frame = captioned(image, UNDER_WAY, 4)
    assert frame.shape == (256, 512, 3)
    bar, above = 512 // 15, (256 - 512 // 15 - 128) // 2
    drawn = slice(bar + above, bar + above + 128)
    assert np.array_equal(frame[drawn], image.repeat(2, axis=0).repeat(2, axis=1))
    assert (frame[bar : drawn.start] == 255).all()
    assert (frame[drawn.stop :] == 255).all()


def test_the_caption_is_green_on_success_and_hides_nothing() -> None:
    image = np.full((480, 480, 3), 7, np.uint8)
    for success, colour in ((False, DARK), (True, GREEN)):
        frame = captioned(image, UNDER_WAY._replace(success=success), 4)
        assert (frame[0] == colour).all()
        assert (frame[32:512] == 7).all()
        right = frame[:32, 360:]
        assert (right == 255).all(axis=-1).any() == success  # SUCCESS, in white


def goals(achieved: Any, desired: Any) -> dict[str, Any]:
    return {"achieved_goal": np.array(achieved), "desired_goal": np.array(desired)}


def test_distances() -> None:
    env = make("hindsight/BitFlip-v0")
    assert distance(env, goals([0, 1, 1], [1, 1, 0])) == "distance 2"
    assert distance(env, goals([0.0, 3.0], [4.0, 0.0])) == "distance 5.000"
    assert distance(env, goals([0.0], [[0.0, 1.0]])) == ""
    hand = make("HandManipulateBlock-v1")
    turned = goals([0.0, 0.03, 0.04, 1, 0, 0, 0], [0.0, 0, 0, 0, 1, 0, 0])
    assert distance(hand, turned) == "distance 0.050, 3.14 rad"


def test_every_episode_is_played_to_its_end() -> None:
    env = make("hindsight/BitFlip-v0", bits=4)
    shots = list(play(lambda observation: 0, env, episodes=3, seed=0, horizon=4))  # type: ignore[arg-type]
    assert sorted({shot.episode for shot in shots}) == [1, 2, 3]
    assert sum(shot.ended for shot in shots) == 3
    assert shots[-1].ended
    assert all(shot.success == (shot.distance == "distance 0") for shot in shots)


@pytest.mark.parametrize("env_id", ["FetchPush-v4", "HandReach-v3", "HandManipulatePen-v1"])
def test_the_scene_leaves_the_physics_alone(env_id: str) -> None:
    plain, shown = make(env_id), make(env_id)
    set_up(shown, env_id)
    rng = np.random.default_rng(0)
    first, second = (env.reset(seed=3)[0] for env in (plain, shown))
    for _ in range(5):
        action = rng.uniform(-1, 1, plain.action_space.shape).astype(np.float32)
        first, second = (env.step(action)[0] for env in (plain, shown))
        mark(shown, True)
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_a_fetch_goal_is_as_large_as_its_threshold_and_turns_green() -> None:
    env = make("FetchPush-v4")
    set_up(env, "FetchPush-v4")
    model: Any = env.unwrapped.model  # type: ignore[attr-defined]
    goal = model.site("target0").id
    assert model.site_size[goal] == pytest.approx(0.05)
    assert model.site_rgba[goal] == pytest.approx(TO_REACH)
    mark(env, True)
    assert model.site_rgba[goal] == pytest.approx(REACHED)


def test_an_env_that_cannot_be_drawn_is_one_line(tmp_path: Path) -> None:
    policy: Any = SimpleNamespace(env="Mine-v0")
    for modes, told in (([], "no render_modes"), (["ansi"], "only ansi")):
        env = SimpleNamespace(metadata={"render_modes": modes})
        with pytest.raises(HindsightError, match=f"Mine-v0 does not draw itself: .* has {told}"):
            record(policy, lambda env=env: env, tmp_path / "x.mp4", 1, 0, 1)  # type: ignore[misc]


class FailsMidway(gym.Wrapper[Any, Any, Any, Any]):
    left = 5

    def step(self, action: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise RuntimeError("the simulator is gone")
        return self.env.step(action)


class Still:
    env = "hindsight/PointPush-v0"

    def __call__(self, observation: Any) -> Any:
        return np.zeros(2, np.float32)


def test_a_video_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    policy: Any = Still()
    path = tmp_path / "x.mp4"

    def fail() -> None:
        with pytest.raises(HindsightError, match="the simulator is gone"):
            record(policy, lambda **how: FailsMidway(make(Still.env, **how)), path, 1, 0, 20)

    fail()
    assert not list(tmp_path.iterdir())
    record(policy, partial(make, Still.env), path, 1, 0, 10)
    whole = path.read_bytes()
    fail()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == whole


def test_other_envs_are_shown_as_they_are() -> None:
    env = make("hindsight/PointPush-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    set_up(env, "hindsight/PointPush-v0")
    mark(env, True)
    assert np.array_equal(before, env.render())  # type: ignore[arg-type]
