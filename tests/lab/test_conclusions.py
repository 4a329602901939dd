"""What is concluded, against cases worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hindsight.config import OffPolicyConfig
from hindsight.errors import HindsightError
from hindsight.lab import series
from hindsight.lab.conclusions import conclude, episode_noise, notes
from hindsight.lab.groups import Group, differing, group, setting_labels
from hindsight.lab.page.figure import ticks
from hindsight.lab.runs import LoadedRun
from hindsight.lab.speed import speeds
from hindsight.replay.replay import ReplayConfig
from hindsight.schedules import Schedule
from hindsight.training.run import Run


def run(
    name: str,
    seed: int,
    *success: float,
    k: float = 4.0,
    episodes: int = 50,
    env: str = "FetchPush-v4",
) -> LoadedRun:
    config = OffPolicyConfig(
        env, seed=seed, eval_episodes=episodes, replay=ReplayConfig(replay_k=Schedule.parse(k))
    )
    rows = tuple(
        {"cycle": i, "step": 100 * i, "time/total": 60.0 * i, "eval/success_rate": value}
        for i, value in enumerate(success, 1)
    )
    return LoadedRun(Run(Path(name), config), rows, "finished", {})


def groups(*results: tuple[float, ...], episodes: int = 50) -> list[Group]:
    """Groups a, b, ..., each with the last success of its seeds."""
    runs = [
        run(f"{'abcdefg'[i]}-{seed}", seed, value, k=float(i), episodes=episodes)
        for i, values in enumerate(results)
        for seed, value in enumerate(values)
    ]
    return group(runs)


def test_a_clear_difference_is_claimed() -> None:
    (conclusion,) = conclude(groups((0.1, 0.2, 0.1, 0.2, 0.15), (1.0, 0.98, 0.99, 1.0, 0.99)))
    assert conclusion.verdict == "better"
    assert conclusion.groups == ("b", "a")
    assert conclusion.text.startswith("“b” is better than “a” on FetchPush-v4: 0.99 [")
    assert "against 0.15 [" in conclusion.text
    assert "(5 seeds each)." in conclusion.text


@pytest.mark.parametrize("seeds", [2, 4])
def test_few_seeds_claim_nothing(seeds: int) -> None:
    worse, better = (0.1, 0.2, 0.1, 0.2, 0.15), (1.0, 0.98, 0.99, 1.0, 0.99)
    (conclusion,) = conclude(groups(worse, better[:seeds]))
    assert conclusion.verdict == "ahead"
    assert conclusion.text.startswith("“b” is ahead of “a” on FetchPush-v4: 0.99 [")
    assert "5 each are needed to claim it" in conclusion.text


def test_overlapping_seeds_claim_nothing() -> None:
    (conclusion,) = conclude(groups((0.9, 0.5, 0.7), (0.6, 0.8, 0.7)))
    assert conclusion.verdict == "no difference"
    assert conclusion.text.startswith("No difference can be claimed between")


def test_a_gap_that_the_episodes_cannot_show_is_not_claimed() -> None:
    # Both seeds agree, so the intervals have no width; but it is one episode of 50 per seed.
    # Pooled: p = 0.99, and 1.96 sqrt(0.99 * 0.01 * (1/100 + 1/100)) = 0.0276 > 0.02.
    pair = groups((0.98, 0.98), (1.0, 1.0))
    assert episode_noise(*pair) == pytest.approx(0.02758, abs=1e-4)
    assert conclude(pair)[0].verdict == "too few episodes"
    # With 1,000 episodes per seed it is 0.0062.
    five = groups((0.98,) * 5, (1.0,) * 5, episodes=1000)
    assert conclude(five)[0].verdict == "better"


def test_one_seed_claims_nothing() -> None:
    (conclusion,) = conclude(groups((0.1,), (1.0,)))
    assert conclusion.verdict == "one seed"
    assert conclusion.text == "One seed claims nothing: “b” 1.00, “a” 0.10 on FetchPush-v4."
    assert [c.verdict for c in conclude(groups((0.1,), (1.0, 0.9)))] == ["alone", "one seed"]


def test_envs_are_not_compared_with_each_other() -> None:
    found = conclude(
        group([run("a-0", 0, 0.5), run("a-1", 1, 0.6), run("b-0", 0, 0.9, env="FetchSlide-v4")])
    )
    assert [c.verdict for c in found] == ["alone", "one seed"]


def test_notes_tell_what_the_numbers_rest_on() -> None:
    text = " ".join(notes(groups((0.5, 0.6), (0.7, 0.8), episodes=8)))
    assert "8 greedy episodes" in text
    assert "off by up to 0.35" in text  # 1.96 * sqrt(0.25 / 8)
    assert "It flatters" in text
    assert "fewer than 5 seeds" in text


def test_best_is_kept_apart_from_the_last() -> None:
    (found,) = group([run("a-0", 0, 0.2, 0.9, 0.6), run("a-1", 1, 0.4, 0.3, 0.8)])
    assert found.finals == [0.6, 0.8]
    assert found.final is not None
    assert found.final.value == pytest.approx(0.7)
    assert found.best is not None
    assert found.best.value == pytest.approx(0.85)
    assert found.evaluations == 3


def test_labels_come_from_directories_or_settings() -> None:
    assert [g.label for g in groups((0.1, 0.2), (0.3,))] == ["a", "b"]
    twins = [run("x-seed0", 0, 0.1, k=0), run("x-seed0-2", 0, 0.2, k=8)]
    assert [g.label for g in group(twins)] == ["replay_k 0.0", "replay_k 8.0"]
    assert [g.label for g in group(twins, ["none", "eight"])] == ["none", "eight"]
    assert differing(group(twins)) == {"replay.replay_k": ["0.0", "8.0"]}
    assert len(set(setting_labels(groups((0.1,), (0.2,), (0.3,))))) == 3
    with pytest.raises(HindsightError, match="1 labels for 2 groups"):
        group(twins, ["one"])


def test_a_line_is_the_mean_over_seeds_at_common_evaluations() -> None:
    (found,) = group([run("a-0", 0, 0.0, 0.4, 0.9), run("a-1", 1, 0.2, 0.8)])
    line = series.success(found, "steps", 0)
    assert line is not None
    assert line.x.tolist() == [100, 200]
    np.testing.assert_allclose(line.y, [0.1, 0.6])
    np.testing.assert_allclose([line.low, line.high], [[0.0, 0.4], [0.2, 0.8]])


def test_long_lines_are_thinned_and_keep_their_end() -> None:
    (found,) = group([run("a-0", 0, *np.linspace(0, 1, 500).tolist())])
    line = series.success(found, "minutes", 0)
    assert line is not None
    assert len(line.x) == series.POINTS
    assert (line.x[-1], line.y[-1]) == (500, 1.0)


@pytest.mark.parametrize(
    ("bottom", "top", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 400_000, [0, 100_000, 200_000, 300_000, 400_000]),
        (0, 0, [0, 1]),
        (-1.2, 2.1, [-2, -1, 0, 1, 2, 3]),
        (0, 0.0071, [0, 0.002, 0.004, 0.006, 0.008]),
    ],
)
def test_ticks_are_round(bottom: float, top: float, expected: list[float]) -> None:
    assert ticks(bottom, top, 5) == pytest.approx(expected)


def test_speed_is_compared_with_the_first_group_or_the_named_one() -> None:
    slow = [run(f"slow-{seed}", seed, 0.0, 0.2, 1.0, k=1.0) for seed in range(5)]
    fast = [run(f"fast-{seed}", seed, 0.4, 1.0, k=2.0) for seed in range(5)]
    few = [run(f"few-{seed}", seed, 0.5, 0.5, k=3.0) for seed in range(4)]
    other = [run("other-0", 0, 0.5, env="FetchSlide-v4")]
    found = speeds(group([*slow, *fast, *few, *other]))
    assert [s.until for s in found.values()] == [200, 200, 200, 100]
    assert [s.area.value for s in found.values()] == pytest.approx([0.05, 0.55, 0.5, 0.5])
    assert found["slow"].against("slow") == found["other"].against("other") == "the base"
    assert found["fast"].against("fast") == "1.00 [1.00, 1.00]: better"
    assert found["few"].against("few") == "fewer than 5 seeds"
    assert found["few"].steps_to_good.with_interval == "0 of 4"
    assert found["fast"].steps_to_good.median is not None
    assert found["fast"].steps_to_good.median.value == 200
    named = speeds(group([*slow, *fast, *other]), base="fast")
    assert named["slow"].against("slow") == "0.00 [0.00, 0.00]: worse"
    assert named["other"].base == "other"
    with pytest.raises(HindsightError, match="Did you mean 'fast'"):
        speeds(group([*slow, *fast]), base="fats")


def test_a_run_that_has_just_begun_leaves_an_area() -> None:
    begun = group([run("a-0", 0, k=1.0), run("b-0", 0, 0.1, 0.3, k=2.0)])
    assert speeds(begun)["b"].area.value == pytest.approx(0.15)
    assert "a" not in speeds(begun)
