"""`hindsight export`: a run's policy for use elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from hindsight.commands.runs import check_episodes, run_path
from hindsight.errors import HindsightError


@dataclass
class Export:
    """Write a run's policy as an ONNX file, checked against it on 1,000 observations; or its
    episodes as a Minari dataset.

    Of the ONNX file, features, normaliser, action scaling and limits are part. Needs the onnx, or
    the minari extra.
    """

    run_path: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run directory; with --pretrained, an env's id."""
    pretrained: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """The policy of this env that comes with the library."""
    output: Annotated[
        Path | None,
        arg(
            aliases=["-o"],
            metavar="PATH",
            help_behavior_hint="(default: policy.onnx in the run directory)",
        ),
    ] = None
    """The .onnx file."""

    minari: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Instead, play the policy and write a local Minari dataset: such as
    fetch/push/hindsight-v0."""
    episodes: int = 100
    """Episodes of the dataset."""
    explore: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Explore as at the end of training, instead of acting greedily."""
    seed: int = 0
    """Seed of the episodes' starts."""
    trust: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made
    here. It runs code."""

    def run(self, more: Sequence[str]) -> int:
        path = run_path(self.run_path, self.pretrained)
        if self.minari is None:
            self._onnx(path)
        else:
            self._dataset(path, self.minari)
        return 0

    def _dataset(self, path: Path, name: str) -> None:
        from hindsight.integrations.minari import write_dataset
        from hindsight.training.run import Run

        if self.output is not None:
            raise HindsightError(
                "-o is for ONNX files: MINARI_DATASETS_PATH says where Minari writes"
            )
        check_episodes(self.episodes, self.seed)
        run = Run.open(path)
        where, success = write_dataset(
            run, name, self.episodes, self.seed, self.explore, self.trust
        )
        print(f"dataset: {name}, {self.episodes} episodes, success rate {success:.2f}, in {where}")
        print(f"to train from it: hindsight train {run.config.env} --dataset minari:{name}")

    def _onnx(self, path: Path) -> None:
        from hindsight.integrations.onnx import export, in_words
        from hindsight.saving.files import refuse_links
        from hindsight.training.policy import Policy

        output = self.output or path / "policy.onnx"
        if self.output is None and self.pretrained:
            output = Path(f"{path.name}.onnx")
        if output.suffix != ".onnx":
            raise HindsightError(f"the file must be called something.onnx, got {output.name}")
        policy = Policy.load(path)
        if self.output is None and not self.pretrained:
            refuse_links(path)
        done = export(policy, output)
        print(f"policy: {done.path} ({done.path.stat().st_size / 1000:.0f} kB)")
        print(f"graph: ONNX opset {done.opset}, {in_words(policy)}")
        print(
            f"checked: {done.observations:,} observations, actions differ by at most "
            f"{done.largest_difference:.0e} of half their range"
        )
