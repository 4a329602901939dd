"""`hindsight export`: a run's policy for use elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from hindsight.errors import HindsightError


@dataclass
class Export:
    """Write a run's policy as an ONNX file, checked against it on 1,000 observations.

    Features, normaliser, action scaling and limits are inside. Needs the onnx extra.
    """

    run_path: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run directory."""
    output: Annotated[
        Path | None,
        arg(
            aliases=["-o"],
            metavar="PATH",
            help_behavior_hint="(default: policy.onnx in the run directory)",
        ),
    ] = None
    """The .onnx file."""

    def run(self, more: Sequence[str]) -> int:
        from hindsight.integrations.onnx import export, inputs_of
        from hindsight.saving.files import refuse_links
        from hindsight.training.policy import Policy

        output = self.output or self.run_path / "policy.onnx"
        if output.suffix != ".onnx":
            raise HindsightError(f"the file must be called something.onnx, got {output.name}")
        policy = Policy.load(self.run_path)
        if self.output is None:
            refuse_links(self.run_path)
        done = export(policy, output)
        print(f"policy: {done.path} ({done.path.stat().st_size / 1000:.0f} kB)")
        print(f"graph: ONNX opset {done.opset}, {inputs_of(policy)}")
        print(
            f"checked: {done.observations:,} observations, actions differ by at most "
            f"{done.largest_difference:.0e} of half their range"
        )
        return 0
