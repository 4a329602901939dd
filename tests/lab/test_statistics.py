import numpy as np
import pytest

from hindsight.lab.statistics import (
    area,
    difference,
    estimate,
    first_good,
    improvement,
    improvement_of_many,
    improvement_text,
    interquartile_mean,
    steps_to_good,
    swing,
)


def test_interquartile_mean_leaves_out_a_quarter_on_each_side():
    assert interquartile_mean([0.0, 0.4, 0.6, 1.0]) == pytest.approx(0.5)
    assert interquartile_mean([0, 0, 0, 1, 2, 3, 100, 100]) == pytest.approx(1.5)
    assert interquartile_mean([0.2, 0.4, 0.9]) == pytest.approx(0.5)


def test_interval_holds_the_value_and_is_the_same_every_time():
    values = [0.9, 0.95, 1.0, 0.5, 0.97]
    first = estimate(values)
    assert first == estimate(values)
    assert min(values) <= first.low <= first.value <= first.high <= max(values)
    assert first.low < first.high


def test_one_seed_has_no_interval():
    assert estimate([0.7]) == estimate([0.7]).__class__(0.7, 0.7, 0.7, 1)


def test_difference_is_claimed_only_if_the_seeds_do_not_overlap():
    apart = difference([0.9, 0.95, 1.0], [0.1, 0.2, 0.15])
    assert apart.low > 0
    assert apart.value == pytest.approx(0.8)
    close = difference([0.9, 0.5, 0.7], [0.6, 0.8, 0.7])
    assert close.low < 0 < close.high


def test_improvement_counts_pairs_of_seeds_and_ties_half():
    found = improvement([1, 2], [0, 1])  # pairs: 1>0, 1=1, 2>0, 2>1
    assert found.value == pytest.approx(3.5 / 4)
    assert improvement_of_many([1] * 4, [0] * 5) is None
    assert improvement_text(None) == "fewer than 5 seeds"
    sure = improvement_of_many([1] * 5, [0] * 5)
    assert improvement_text(sure) == "1.00 [1.00, 1.00]: better"
    assert improvement_text(improvement([0] * 5, [1] * 5)).endswith(": worse")
    assert improvement_text(improvement([0, 1], [1, 0])).endswith(": cannot be told")


def test_area_is_that_under_straight_lines_between_evaluations():
    steps, success = [10, 20, 30], [0.0, 0.9, 0.3]
    # 0 up to 10; then 10 * 0.45, then 10 * 0.6.
    assert area(steps, success) == pytest.approx(10.5 / 30)
    assert area(steps, success, until=20) == pytest.approx(4.5 / 20)
    assert area(steps, success, until=15) == pytest.approx(5 * 0.225 / 15)
    assert area(steps, success, until=99) == area(steps, success)
    assert area([10], [0.4]) == area([10, 20], [0.4, 0.9], until=10) == pytest.approx(0.4)
    # Half as many evaluations of the same curve say nearly the same.
    steps = np.arange(1, 41) * 16
    success = 1 / (1 + np.exp(-(steps - 300) / 60))
    assert area(steps[1::2], success[1::2]) == pytest.approx(area(steps, success), abs=0.002)
    steps, success = [10, 20, 30], [0.0, 0.9, 0.3]
    assert first_good(steps, success) == 20
    assert first_good(steps, [0.0, 0.89, 0.3]) is None


def test_steps_to_good_is_the_median_of_all_seeds():
    found = steps_to_good([4000, None, 2000, 9000])
    assert (found.reached, found.seeds, found.median.value) == (3, 4, 9000)
    assert str(found) == found.with_interval == "3 of 4, 9k"  # few seeds have no interval
    # One seed that is soon says nothing where most never get there.
    assert str(steps_to_good([1000, None, None, None, None])) == "1 of 5"
    assert steps_to_good([1000, 2000, 3000, None, None]).with_interval == "3 of 5, 3k [1k, never]"
    many = steps_to_good([1000, 2000, 3000, 4000, 5000])
    assert many.with_interval.startswith("5 of 5, 3k [")
    assert 1000 <= many.median.low < 3000 < many.median.high <= 5000
    assert str(steps_to_good([None, None])) == "0 of 2"


def test_swing_is_the_mean_change_once_half_is_reached():
    # 0.6 to 0.3, to 0.9, to 0.9
    assert swing([0.0, 0.2, 0.6, 0.3, 0.9, 0.9]) == pytest.approx((0.3 + 0.6 + 0.0) / 3)
    assert swing([0.1, 0.4]) is None
    assert swing([0.1, 0.7]) is None
