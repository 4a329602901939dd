"""Frames of a video: large enough to be seen, of sizes that players can show."""

from __future__ import annotations

import numpy as np
import pytest

from hindsight.lab.video import WIDTH, _framed


@pytest.mark.parametrize("size", [(64, 256), (64, 128), (352, 352), (480, 480), (37, 61), (1, 1)])
def test_a_frame_is_large_and_not_flat(size: tuple[int, int]) -> None:
    height, width = _framed(np.zeros((*size, 3), np.uint8), success=False).shape[:2]
    assert (height % 16, width % 16) == (0, 0)
    assert width >= WIDTH
    assert height >= width // 2 - 16


def test_a_flat_picture_is_enlarged_whole_and_stands_in_the_middle() -> None:
    image = np.arange(64 * 256 * 3, dtype=np.uint8).reshape(64, 256, 3)
    frame = _framed(image, success=False)
    assert frame.shape == (256, 512, 3)
    assert np.array_equal(frame[64:192], image.repeat(2, axis=0).repeat(2, axis=1))
    assert (frame[:64] == 255).all()
    assert (frame[192:] == 255).all()


def test_success_has_a_green_border() -> None:
    frame = _framed(np.zeros((480, 480, 3), np.uint8), success=True)
    assert frame.shape == (480, 480, 3)
    for edge in (frame[0], frame[-1], frame[:, 0], frame[:, -1]):
        assert (edge == (0, 158, 115)).all()
    assert not frame[6:-6, 6:-6].any()
