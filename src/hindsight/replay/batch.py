"""What is replayed: transitions under goals, as a learner reads them, and where each of them is
stored."""

from __future__ import annotations

from typing import NamedTuple

from hindsight.replay.pairs import Addresses
from hindsight.types import Ints, Tensor


class Fresh(NamedTuple):
    """How fresh TD errors choose among candidates (`replay/fresh.py`)."""

    draws: Tensor  # [B] uniform numbers, one for each transition that is chosen
    alpha: Tensor  # exponent of the fresh priorities
    epsilon: Tensor  # added to them
    ranked: Tensor  # how many entries are ranked by them; 0: their sizes count


class Batch(NamedTuple):
    """B transitions under goals. Of U batches drawn together every array is [U, B, ...]."""

    observation: Tensor
    next_observation: Tensor
    goal: Tensor  # features
    action: Tensor
    reward: Tensor
    terminated: Tensor  # 0 or 1
    importance: Tensor  # 1 / (N P(i)): 1 if all were drawn alike
    beta: Tensor = 0.0  # exponent of the importance weights in the critic's loss
    actor_beta: Tensor = 0.0  # and in the actor's
    fresh: Fresh | None = (
        None  # then these are candidates, several times as many as are learnt from
    )
    actor: Batch | None = None  # what the actor learns from, if it is something else


class TDErrors(NamedTuple):
    """TD errors r + gamma Q'(s'||g, .) - Q(s||g, a) and values Q(s||g, a), of one shape."""

    error: Tensor
    value: Tensor
    frozen: Tensor | None = None  # the TD errors that the target networks have, if asked for


class Sample(NamedTuple):
    """U batches, and where they come from."""

    batch: Batch  # [U, B, ...]
    addresses: Addresses  # [U, B]
    pairs: Ints | None  # [U, B] numbers of the prioritised pairs; None: there are none
    sampled_at: int  # how many times episodes had been stored
