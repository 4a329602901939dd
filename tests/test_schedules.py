from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.errors import HindsightError
from hindsight.schedules import Schedule


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.2", [0.2, 0.2, 0.2]),
        ("linear(1, 0)", [1.0, 0.5, 0.0]),
        ("linear(1, 0, 0.5)", [1.0, 0.0, 0.0]),
        ("exponential(4, 1)", [4.0, 2.0, 1.0]),
        ("cosine(3, 1)", [3.0, 2.0, 1.0]),
        ("step(8, 1, 0.5)", [8.0, 1.0, 1.0]),
        ("search_then_converge(8, 0.5)", [8.0, 4.0, 8 / 3]),
    ],
)
def test_values_at_start_middle_and_end(text: str, values: list[float]) -> None:
    schedule = Schedule.parse(text)
    assert [schedule(x) for x in (0.0, 0.5, 1.0)] == pytest.approx(values)
    assert Schedule.parse(str(schedule)) == schedule
    assert str(Schedule.parse("linear(0.123456789, 1e-7)")) == "linear(0.123456789, 1e-07)"


@given(
    st.floats(0.01, 100),
    st.floats(0.01, 100),
    st.floats(-1, 2),
    st.sampled_from(["linear", "exponential", "cosine"]),
)
def test_stays_between_its_ends_and_clips_progress(
    first: float, last: float, progress: float, kind: str
) -> None:
    schedule = Schedule(kind, (first, last))
    low, high = schedule.bounds()
    assert low * (1 - 1e-9) <= schedule(progress) <= high * (1 + 1e-9)
    assert schedule(-5) == schedule(0)
    assert schedule(7) == schedule(1)


@pytest.mark.parametrize(
    "text",
    ["", "liner(1, 0)", "linear(1)", "linear(1, x)", "exponential(1, 0)", "nan", "step(1, 0, 2)", "linear(1,0,0)",
     "search_then_converge(1, 0)"],
)  # fmt: skip
def test_bad_text_is_a_clear_error(text: str) -> None:
    with pytest.raises(HindsightError):
        Schedule.parse(text)


def test_misspelt_kind_names_the_nearest() -> None:
    with pytest.raises(HindsightError, match="linear"):
        Schedule.parse("liner(1, 0)")
