"""Replay: storage of episodes, samplers of transitions, priorities of pairs, and their composition with a goal rule."""

from __future__ import annotations

from hindsight.collect import record
from hindsight.config import PriorityConfig, ReplayConfig
from hindsight.episodes import Episodes
from hindsight.replay.priorities import importance_weights
from hindsight.replay.prioritized import TDErrors
from hindsight.replay.rank_heap import RankHeap
from hindsight.replay.rank_order import RankOrder
from hindsight.replay.replay import Batch, HindsightReplay, Sample
from hindsight.replay.sum_tree import SumTree

__all__ = [
    "Batch",
    "Episodes",
    "HindsightReplay",
    "PriorityConfig",
    "RankHeap",
    "RankOrder",
    "ReplayConfig",
    "Sample",
    "SumTree",
    "TDErrors",
    "importance_weights",
    "record",
]
