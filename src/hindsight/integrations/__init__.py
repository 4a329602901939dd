"""Bridges to other libraries. Each imports its library when it is used."""

from __future__ import annotations

from typing import Literal

LoggerName = Literal["wandb", "mlflow", "tensorboard"]
"""What can be named as the logger of a training."""
