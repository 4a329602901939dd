import pytest

from hindsight.lab.statistics import difference, estimate, interquartile_mean


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
