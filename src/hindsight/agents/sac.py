"""Soft actor-critic (Haarnoja et al., 2018, "Algorithms and Applications"): returns and entropy
together.

The policy is a Gaussian, squashed by tanh, whose deviation depends on the state. It maximises Q
plus `temperature` times its entropy. The temperature falls while there is more entropy than
`target_entropy`, and rises while there is less. The smallest value of the critics is the target.
The actor that plays is the one that learns: it has no target network.

**TD errors.** Each critic has one: the common target minus its own value. `td_error` says which
sets the priority, the mean of them or the largest. The target needs an action drawn from the
policy. Where no key is given, as when new pairs get their first priority, the number of updates is
the key: the same state gives the same errors.

**Possible returns.** Entropy counts as reward from the next step on, so targets may lie outside
of the env's returns. On the box [-1, 1]^a entropy is at most a ln 2. A learnt temperature keeps
it, on average over states, at `target_entropy` at least. With `clip_target` the bounds are those
of the env, plus gamma / (1 - gamma) times the temperature times these two. They close in on those
of the env as the temperature falls. With a fixed temperature there is no lower bound. Without
`entropy_in_target` the bounds are those of the env.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tyro.conf import Suppress

from hindsight.acting import Actor, ActorShape, RandomActions, mean_and_log_std, squashed_log_prob
from hindsight.agents.agent import Metrics, OffPolicyAgent
from hindsight.agents.config import QLearningConfig, unread_hold
from hindsight.agents.losses import adam_step, kept, td_loss, td_metrics, td_target
from hindsight.collect import Act
from hindsight.networks import MLP, Params, average, copy_of
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.priority_index import importance_weights
from hindsight.schedules import Schedule
from hindsight.settings import (
    LEARNING_RATES,
    AtLeastOne,
    Count,
    Positive,
    RateSchedule,
    Search,
    ShareBelowOne,
    ShareSchedule,
    Widths,
    refuse_changes,
)
from hindsight.types import Array, Floats, Tensor


@dataclass(frozen=True)
class SACConfig(QLearningConfig):
    """Soft actor-critic, for continuous actions."""

    method: Annotated[str, Suppress] = "sac"
    net_arch: Widths = (256, 256, 256)
    actor_learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    critic_learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    temperature: Annotated[Positive, Search(0.01, 1.0, log=True)] = 0.1
    """Weight of the entropy: at the start, or always, if it is not learnt."""
    learn_temperature: bool = True
    """Let the temperature bring the entropy to its target."""
    temperature_learning_rate: RateSchedule = Schedule.parse(1e-3)
    target_entropy: float | None = None
    """Of actions in units of half their range; minus their number if not given."""
    entropy_in_target: bool = True
    """Count the entropy of later steps in Q. Without it only the actor is rewarded for entropy."""
    clip_target: bool = True
    """Clip targets to the returns that the env's sparse reward, and entropy with it, allow."""
    num_critics: Count = 2
    """Q networks; the smallest of their values counts."""
    layer_norm: bool = False
    """Normalise every hidden layer of the critics."""
    dropout: ShareBelowOne = 0.0
    """Share of every hidden layer of the critics that is dropped in an update."""
    td_error: Literal["mean", "largest"] = "mean"
    """Which of the critics' TD errors sets a priority."""
    random_actions: Annotated[ShareSchedule, Search(0.0, 0.5)] = Schedule.parse(0.0)
    """Share of actions drawn uniformly at random while exploring; the others are drawn from the
    policy."""
    random_hold: AtLeastOne = 1.0
    """Steps for which such an action is held, on average."""

    def check(self) -> None:
        if not self.learn_temperature:
            unused = ("temperature_learning_rate", "target_entropy")
            refuse_changes(self, unused, "agent.", "as the temperature is not learnt")
        if self.num_critics == 1:
            refuse_changes(self, ("td_error",), "agent.", "as there is one critic")

    def unread(self) -> dict[str, str]:
        return super().unread() | unread_hold(self.random_actions)


class Rates(NamedTuple):
    actor: Tensor
    critic: Tensor
    temperature: Tensor


class SACState(NamedTuple):
    """All that learning changes. `critic` holds the parameters of all critics, stacked."""

    actor: Params
    critic: Params
    target_critic: Params
    log_temperature: Tensor
    actor_optimizer: Any
    critic_optimizer: Any
    temperature_optimizer: Any
    updates: jax.Array
    scale: Scale
    rates: Rates


class SAC(OffPolicyAgent):
    config: SACConfig
    acts = "continuous"

    # ------------------------------------------------------------------------------------ networks

    @property
    def _actor(self) -> MLP:
        return self.network(2 * self.shapes.actions.dim)

    @property
    def _critic(self) -> MLP:
        config = self.config
        return self.network(
            self.critic_outputs, layer_norm=config.layer_norm, dropout=config.dropout
        )

    @property
    def critic_outputs(self) -> int:
        """Of each critic: its value."""
        return 1

    def init(self, key: Tensor) -> SACState:
        actor_key, critic_key = jax.random.split(key)
        inputs, actions = self.shapes.observation + self.shapes.goal, self.shapes.actions.dim
        actor = self._actor.init(actor_key, jnp.zeros((1, inputs)))
        keys = jax.random.split(critic_key, self.config.num_critics)
        critic = jax.vmap(self._critic.init, in_axes=(0, None))(
            keys, jnp.zeros((1, inputs + actions))
        )
        log_temperature = jnp.log(jnp.float32(self.config.temperature))
        adam, zero = optax.scale_by_adam(), np.float32(0)
        return SACState(
            actor,
            critic,
            copy_of(critic),
            log_temperature,
            adam.init(actor),
            adam.init(critic),
            adam.init(log_temperature),
            jnp.zeros((), jnp.int32),
            self.shapes.no_scale(),
            Rates(zero, zero, zero),
        )

    def rates(self, progress: float) -> Rates:
        config = self.config
        schedules = (
            config.actor_learning_rate,
            config.critic_learning_rate,
            config.temperature_learning_rate,
        )
        return Rates(*(schedule(progress) for schedule in schedules))

    def drawn(self, actor: Params, inputs: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in [-1, 1] drawn from the policy [B, a], and their log-probabilities [B]."""
        mean, log_std = mean_and_log_std(jnp, self._actor.apply(actor, inputs))
        noise = jax.random.normal(key, mean.shape)
        before = mean + jnp.exp(log_std) * noise
        return jnp.tanh(before), squashed_log_prob(jnp, noise, log_std, before)

    def critics(
        self, critic: Params, inputs: Tensor, action: Tensor, key: Tensor | None = None
    ) -> Tensor:
        """What all critics say [critics, B, outputs] of actions in [-1, 1]; with a key, under
        dropout."""
        joined = jnp.concatenate([inputs, action], axis=-1)
        if key is None or self.config.dropout == 0:
            return jax.vmap(lambda one: self._critic.apply(one, joined))(critic)
        keys = jax.random.split(key, self.config.num_critics)
        return jax.vmap(
            lambda one, key: self._critic.apply(one, joined, True, rngs={"dropout": key})
        )(critic, keys)

    # ------------------------------------------- what is made of the critics: TQC has it otherwise

    def next_values(self, outputs: Tensor) -> Tensor:
        """Values [B, 1] that targets are made of: the smallest."""
        return jnp.min(outputs, axis=0)

    def actor_values(self, outputs: Tensor) -> Tensor:
        """Values [B] that the actor climbs: the smallest, too."""
        return jnp.min(outputs, axis=0)[:, 0]

    def critic_loss(self, outputs: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """Mean loss of the TD errors, importance-weighted by [B], summed over the critics."""
        return len(outputs) * td_loss((target - outputs)[..., 0], weight, self.config.loss)

    # -------------------------------------------------------------------------------------- losses

    def target(
        self, state: SACState, batch: Batch, key: Tensor, dropout: Tensor | None = None
    ) -> Tensor:
        """r + gamma (min_i Q'_i(s'||g, a') - temperature log pi(a'|s'||g)) [B, n], with a' drawn
        from the policy."""
        inputs = self.inputs(state.scale, batch.next_observation, batch.goal)
        action, log_prob = self.drawn(state.actor, inputs, key)
        next_values = self.next_values(self.critics(state.target_critic, inputs, action, dropout))
        if self.config.entropy_in_target:
            next_values = next_values - jnp.exp(state.log_temperature) * log_prob[:, None]
        reward, terminated = batch.reward[:, None], batch.terminated[:, None]
        return td_target(
            reward, terminated, next_values, self.shapes.gamma, self.bounds(state.log_temperature)
        )

    def bounds(self, log_temperature: Tensor) -> tuple[Tensor, Tensor] | None:
        """Smallest and largest target, if there are such: see above."""
        returns, gamma = self.shapes.returns, self.shapes.gamma
        if returns is None or not self.config.clip_target or not self.config.entropy_in_target:
            return returns if self.config.clip_target else None
        per_entropy = gamma / (1.0 - gamma) * jnp.exp(log_temperature)
        most = self.shapes.actions.dim * np.log(2.0)
        # A temperature that is not learnt holds no policy to an entropy, however low.
        least = self.target_entropy if self.config.learn_temperature else -np.inf
        return returns[0] + per_entropy * min(least, most), returns[1] + per_entropy * most

    @property
    def target_entropy(self) -> float:
        wanted = self.config.target_entropy
        return -float(self.shapes.actions.dim) if wanted is None else wanted

    def td_errors(self, state: SACState, batch: Batch) -> TDErrors:
        """Target minus Q(s||g, a) and Q(s||g, a), of all critics together, both [B]."""
        target = self.target(state, batch, jax.random.fold_in(jax.random.key(0), state.updates))
        return self._together(self._outputs(state.critic, state, batch), target)

    def _outputs(
        self, critic: Params, state: SACState, batch: Batch, dropout: Tensor | None = None
    ) -> Tensor:
        """What all critics say of the batch [critics, B, outputs]."""
        inputs = self.inputs(state.scale, batch.observation, batch.goal)
        return self.critics(critic, inputs, self.shapes.actions.to_unit(batch.action), dropout)

    def _together(self, outputs: Tensor, target: Tensor) -> TDErrors:
        """One TD error and value for each transition [B], of means over a critic's outputs and
        over targets."""
        values = jnp.mean(outputs, axis=-1)
        errors = jnp.mean(target, axis=-1) - values
        error = jnp.mean(errors, axis=0)
        if self.config.td_error == "largest":
            largest = jnp.argmax(jnp.abs(errors), axis=0)
            error = jnp.take_along_axis(errors, largest[None], axis=0)[0]
        return TDErrors(error, jnp.mean(values, axis=0))

    def actor_loss(
        self,
        actor: Params,
        state: SACState,
        batch: Batch,
        key: Tensor,
        dropout: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """temperature log pi(a|s||g) - Q(s||g, a), averaged; also the entropy and the mean
        absolute action."""
        inputs = self.inputs(state.scale, batch.observation, batch.goal)
        action, log_prob = self.drawn(actor, inputs, key)
        value = self.actor_values(self.critics(state.critic, inputs, action, dropout))
        weight = importance_weights(batch.importance, batch.actor_beta)
        loss = jnp.mean(weight * (jnp.exp(state.log_temperature) * log_prob - value))
        return loss, (-jnp.mean(log_prob), jnp.mean(jnp.abs(action)))

    def temperature_loss(self, log_temperature: Tensor, entropy: Tensor) -> Tensor:
        """Its slope is the entropy that is too much: then the temperature falls."""
        return log_temperature * (entropy - self.target_entropy)

    # -------------------------------------------------------------------------------------- update

    def update(
        self, state: SACState, batch: Batch, key: Tensor
    ) -> tuple[SACState, TDErrors, Metrics]:
        config, rates = self.config, state.rates
        next_key, actor_key, *dropout = jax.random.split(key, 5)
        target = self.target(state, batch, next_key, dropout[0])
        weight = importance_weights(batch.importance, batch.beta)

        def critic_loss(critic: Params) -> tuple[Tensor, TDErrors]:
            outputs = self._outputs(critic, state, batch, dropout[1])
            return self.critic_loss(outputs, target, weight), self._together(outputs, target)

        (critic_loss_now, td), gradient = jax.value_and_grad(critic_loss, has_aux=True)(
            state.critic
        )
        critic, critic_optimizer = adam_step(
            state.critic, gradient, state.critic_optimizer, rates.critic
        )

        actor_grad = jax.value_and_grad(self.actor_loss, has_aux=True)
        actor_batch = batch if batch.actor is None else batch.actor
        now = state._replace(critic=critic)
        (actor_loss, (entropy, size)), gradient = actor_grad(
            state.actor, now, actor_batch, actor_key, dropout[2]
        )
        actor, actor_optimizer = adam_step(
            state.actor, gradient, state.actor_optimizer, rates.actor
        )

        if config.learn_temperature:
            gradient = jax.grad(self.temperature_loss)(state.log_temperature, entropy)
            learnt = adam_step(
                state.log_temperature, gradient, state.temperature_optimizer, rates.temperature
            )
            state = state._replace(log_temperature=learnt[0], temperature_optimizer=learnt[1])
        updates = state.updates + 1
        keep = kept(updates, config.tau, config.target_update_interval)
        state = state._replace(
            actor=actor,
            critic=critic,
            target_critic=average(state.target_critic, critic, keep),
            actor_optimizer=actor_optimizer,
            critic_optimizer=critic_optimizer,
            updates=updates,
        )
        metrics = {
            "critic_loss": critic_loss_now,
            "actor_loss": actor_loss,
            **td_metrics(td),
            "action_size": size,
            "entropy": entropy,
            "temperature": jnp.exp(state.log_temperature),
        }
        return state, td, metrics

    # -------------------------------------------------------------------------------------- acting

    def actor_params(self, state: SACState) -> Params:
        return {"network": state.actor}

    def actor_shape(self) -> ActorShape:
        return self.shapes.actor_shape("squashed_gaussian", self.config)

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        """Actions drawn from the policy, or, for a share of the rows, uniformly random ones."""
        actions = self.shapes.actions
        random = RandomActions(
            actions, self.config.random_actions(progress), self.config.random_hold
        )

        def explore(observation: Floats, goal: Floats) -> Array:
            action, _ = actor.sample(observation, goal, rng)
            return actions.inside(actions.from_unit(random(actions.to_unit(action), rng)))

        return explore
