"""The learners of Stable-Baselines3 with prioritised replay.

`Prioritized` changes two things and nothing else. The gradient that the critic's loss of each
transition gives is multiplied by its importance weight, which is the gradient of the weighted
loss. And the buffer gets the TD errors of what it stores and samples, for which the networks are
evaluated once more. A subclass per learner says what its TD error is.
"""

from __future__ import annotations

from typing import Any

import torch as th
from sb3_contrib import TQC
from stable_baselines3 import DDPG, DQN, SAC, TD3

from hindsight.errors import HindsightError
from hindsight.integrations.sb3.buffer import HindsightReplayBuffer, HindsightSamples
from hindsight.replay import TDErrors


class Prioritized:
    """To be put before an off-policy learner: `class PrioritizedSAC(Prioritized, SAC)`."""

    replay_buffer: Any
    _current_progress_remaining: float

    def td_target(self, batch: HindsightSamples) -> th.Tensor:
        """r + gamma (1 - done) Q'(s'||g, .), [B, 1]."""
        raise NotImplementedError

    def values(self, batch: HindsightSamples) -> th.Tensor:
        """Q(s||g, a) by every critic, [B, critics]."""
        raise NotImplementedError

    def weighted(self) -> th.nn.Module:
        """The network whose loss has importance weights."""
        critic: th.nn.Module = self.critic  # type: ignore[attr-defined]
        return critic

    def td_errors(self, batch: HindsightSamples) -> TDErrors:
        """TD errors and values [B], by the networks as they are: the means over all critics."""
        with th.no_grad():
            values = self.values(batch).mean(dim=1)
            errors = self.td_target(batch).squeeze(1) - values
        return TDErrors(errors.cpu().numpy(), values.cpu().numpy())

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        self.replay_buffer.progress = 1.0 - self._current_progress_remaining
        hook = self.weighted().register_forward_hook(self._weight_gradients)
        try:
            super().train(gradient_steps, batch_size)  # type: ignore[misc]
        finally:
            hook.remove()

    def _weight_gradients(self, critic: th.nn.Module, inputs: Any, output: Any) -> None:
        """The gradients of what the critic says of the sampled batch are weighted; those of what
        it says of the actor's own actions are not."""
        batch: HindsightSamples = self.replay_buffer.last
        weights, argument = batch.weights, inputs[-1]
        if weights is None or not (argument is batch.actions or argument is batch.observations):
            return
        for values in output if isinstance(output, tuple) else (output,):
            if values.requires_grad:
                shaped = weights.reshape(-1, *[1] * (values.dim() - 1))
                values.register_hook(lambda gradient, by=shaped: gradient * by)

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[misc]
        self._connect()

    def load_replay_buffer(self, path: Any, truncate_last_traj: bool = True) -> None:
        super().load_replay_buffer(path, truncate_last_traj)  # type: ignore[misc]
        self._connect()

    def _connect(self) -> None:
        if not isinstance(self.replay_buffer, HindsightReplayBuffer):
            raise HindsightError(
                f"{type(self).__name__} needs replay_buffer_class=HindsightReplayBuffer"
            )
        self.replay_buffer.td_errors = self.td_errors


class PrioritizedDQN(Prioritized, DQN):
    def weighted(self) -> th.nn.Module:
        return self.q_net

    def values(self, batch: HindsightSamples) -> th.Tensor:
        return self.q_net(batch.observations).gather(1, batch.actions.long())

    def td_target(self, batch: HindsightSamples) -> th.Tensor:
        after = self.q_net_target(batch.next_observations).amax(dim=1, keepdim=True)
        return batch.rewards + (1 - batch.dones) * self.gamma * after


class PrioritizedTD3(Prioritized, TD3):
    """Without target noise in the TD errors that set priorities."""

    def values(self, batch: HindsightSamples) -> th.Tensor:
        return th.cat(self.critic(batch.observations, batch.actions), dim=1)

    def td_target(self, batch: HindsightSamples) -> th.Tensor:
        action = self.actor_target(batch.next_observations)
        after = th.cat(self.critic_target(batch.next_observations, action), dim=1)
        return batch.rewards + (1 - batch.dones) * self.gamma * after.amin(dim=1, keepdim=True)


class PrioritizedDDPG(Prioritized, DDPG):
    values = PrioritizedTD3.values
    td_target = PrioritizedTD3.td_target


class PrioritizedSAC(Prioritized, SAC):
    """The next action is drawn from the policy, and its entropy counts."""

    def values(self, batch: HindsightSamples) -> th.Tensor:
        return th.cat(self.critic(batch.observations, batch.actions), dim=1)

    def td_target(self, batch: HindsightSamples) -> th.Tensor:
        action, log_prob = self.actor.action_log_prob(batch.next_observations)
        after = th.cat(self.critic_target(batch.next_observations, action), dim=1)
        after = after.amin(dim=1, keepdim=True) - _temperature(self) * log_prob.reshape(-1, 1)
        return batch.rewards + (1 - batch.dones) * self.gamma * after


class PrioritizedTQC(Prioritized, TQC):
    """The TD error is the mean of the target's quantiles, the largest left out, minus the mean of
    its own."""

    def values(self, batch: HindsightSamples) -> th.Tensor:
        return self.critic(batch.observations, batch.actions).mean(dim=2)

    def td_target(self, batch: HindsightSamples) -> th.Tensor:
        action, log_prob = self.actor.action_log_prob(batch.next_observations)
        quantiles = self.critic_target(batch.next_observations, action).flatten(1).sort().values
        kept = quantiles.shape[1] - self.top_quantiles_to_drop_per_net * self.critic.n_critics
        after = quantiles[:, :kept].mean(dim=1, keepdim=True)
        after = after - _temperature(self) * log_prob.reshape(-1, 1)
        return batch.rewards + (1 - batch.dones) * self.gamma * after


def _temperature(learner: Any) -> th.Tensor:
    """The weight of the entropy: learnt, or fixed."""
    if learner.log_ent_coef is None:
        fixed: th.Tensor = learner.ent_coef_tensor
        return fixed
    return th.exp(learner.log_ent_coef.detach())
