"""Replay: storage of episodes, samplers of transitions, priorities of pairs, and their
composition with a goal rule."""

from __future__ import annotations

from hindsight.collect import record
from hindsight.episodes import Episodes
from hindsight.replay.batch import Batch, Sample, TDErrors
from hindsight.replay.priorities import SIGNALS, PriorityConfig, Signals
from hindsight.replay.priority_index import importance_weights
from hindsight.replay.rank_heap import RankHeap
from hindsight.replay.rank_order import RankOrder
from hindsight.replay.replay import HindsightReplay, ReplayConfig, make_replay
from hindsight.replay.sum_tree import SumTree

__all__ = [
    "SIGNALS",
    "Batch",
    "Episodes",
    "HindsightReplay",
    "PriorityConfig",
    "RankHeap",
    "RankOrder",
    "ReplayConfig",
    "Sample",
    "Signals",
    "SumTree",
    "TDErrors",
    "importance_weights",
    "make_replay",
    "record",
]
