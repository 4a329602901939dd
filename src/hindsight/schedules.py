"""Numbers that change during training: a schedule maps progress (0 at the start, 1 at the end) to a
value.

Written as text, so that the command line, Python and `config.json` share one form:

    0.2                                  constant
    linear(1.0, 0.1)                     straight from 1.0 to 0.1
    linear(1.0, 0.1, 0.5)                the same, done after half of the training, then constant
    exponential(8, 1)                    constant ratio per unit of progress; both ends positive
    cosine(8, 1)                         half a cosine wave
    step(8, 1, 0.5)                      8 until progress 0.5, then 1
    search_then_converge(8, 0.25)        8 / (1 + progress / 0.25)   (Darken and Moody, 1991)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hindsight.errors import HindsightError, nearest

_ARGUMENTS = {
    "constant": (1, 1),
    "linear": (2, 3),
    "exponential": (2, 3),
    "cosine": (2, 3),
    "step": (3, 3),
    "search_then_converge": (2, 2),
}


@dataclass(frozen=True)
class Schedule:
    """A value as a function of training progress. `Schedule.parse` reads the text forms above."""

    kind: str
    numbers: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.kind not in _ARGUMENTS:
            raise HindsightError(f"unknown schedule {self.kind!r}.{nearest(self.kind, _ARGUMENTS)}")
        low, high = _ARGUMENTS[self.kind]
        if not low <= len(self.numbers) <= high:
            raise HindsightError(
                f"schedule {self.kind} takes {low} to {high} numbers, got {len(self.numbers)}"
            )
        if not all(math.isfinite(x) for x in self.numbers):
            raise HindsightError(f"schedule {self} has a number that is not finite")
        if self.kind == "exponential" and min(self.numbers[:2]) <= 0:
            raise HindsightError(
                f"schedule {self}: both ends of an exponential schedule must be positive"
            )
        if self.kind == "step" and not 0 <= self.numbers[2] <= 1:
            raise HindsightError(f"schedule {self}: the step must lie between 0 and 1")
        if self.kind == "search_then_converge" and self.numbers[1] <= 0:
            raise HindsightError(f"schedule {self}: the time constant must be positive")
        if len(self.numbers) == 3 and self.kind != "step" and not 0 < self.numbers[2] <= 1:
            raise HindsightError(
                f"schedule {self}: the third number is a share of training in (0, 1]"
            )

    @staticmethod
    def parse(text: str | float | Schedule) -> Schedule:
        """The schedule that `text` describes."""
        if isinstance(text, Schedule):
            return text
        try:
            return Schedule("constant", (float(text),))
        except (ValueError, TypeError):
            pass
        match = re.fullmatch(r"\s*(\w+)\s*\(([^()]*)\)\s*", str(text))
        if match is None:
            raise HindsightError(
                f"cannot read the schedule {text!r}: write a number or, say, 'linear(1.0, 0.1)'"
            )
        try:
            numbers = tuple(float(part) for part in match[2].split(","))
        except ValueError:
            raise HindsightError(f"cannot read the numbers of the schedule {text!r}") from None
        return Schedule(match[1], numbers)

    def __str__(self) -> str:
        if self.kind == "constant":
            return repr(self.numbers[0])
        return f"{self.kind}({', '.join(map(repr, self.numbers))})"

    def __call__(self, progress: float) -> float:
        """The value at `progress`, which is clipped to [0, 1]."""
        x = min(max(progress, 0.0), 1.0)
        first = self.numbers[0]
        if self.kind == "constant":
            return first
        if self.kind == "search_then_converge":
            return first / (1.0 + x / self.numbers[1])
        last = self.numbers[1]
        if self.kind == "step":
            return first if x < self.numbers[2] else last
        if len(self.numbers) == 3:
            x = min(x / self.numbers[2], 1.0)
        if self.kind == "linear":
            return first + (last - first) * x
        if self.kind == "exponential":
            return float(first * (last / first) ** x)
        return last + (first - last) * 0.5 * (1.0 + math.cos(math.pi * x))

    def bounds(self) -> tuple[float, float]:
        """The smallest and largest value over the whole training."""
        ends = (self(0.0), self(1.0))
        return min(ends), max(ends)
