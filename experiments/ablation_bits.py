"""The same suspects on bit flip, where an answer takes a minute: what to try on Push first."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training


def changed(slug: str, label: str, preset: str = "hper", **settings: Any) -> Training:
    return Training(
        slug,
        "hindsight/BitFlip-v0",
        preset=preset,
        settings={"steps": 60_000}
        | {name.replace("__", "."): value for name, value in settings.items()},
        env_kwargs={"bits": 15},
        label=label,
    )


EXPERIMENT = Experiment(
    order=4,
    title="Which suspect was to blame: HPER on bit flip, 15 bits, with one thing changed",
    where="ours, on Sec. 5",
    entries=(
        changed("hper", "none (`hper`: two queues)"),
        changed("hper-single", "one queue (`hper-single`)", preset="hper-single"),
        changed("her", "plain HER, no priorities", preset="her"),
        changed("none", "no hindsight", preset="her", replay__replay_k=0.0),
        changed("normaliser", "normaliser off", agent__normalize=False),
        changed(
            "two-episodes",
            "two episodes per cycle",
            num_envs=2,
            episodes_per_cycle=2,
            gradient_steps=5,
            eval_every=80,
        ),
        changed(
            "largest", "new pairs start with the largest priority", priority__initial="largest"
        ),
        changed("unprioritised", "stored pairs drawn uniformly", priority__sampling="uniform"),
        changed("fresh", "priorities fresh when sampled", priority__fresh=4),
    ),
    columns=("label", "by_seed", "estimate", "first", "reached", "minutes"),
)
