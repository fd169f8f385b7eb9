"""TD3+BC (Fujimoto & Gu, 2021): offline TD3 with a policy that stays close to the dataset's actions."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, PyTree

from jaxagents.agents.config import OfflineAgentConfig
from jaxagents.agents.offline import OfflineBase
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.learners.batches import weighted_mean
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.train_state import TrainState
from jaxagents.td3 import TD3Config, TD3Hyperparameters, TD3Learner

_SMALLEST_SIZE = 1e-6
"""Smallest divisor of values, to avoid dividing by zero."""


class HyperParameters(TD3Hyperparameters):
    """Traced hyperparameters of TD3+BC. The defaults are from the authors' code.

    Extends the [hyperparameters of TD3][jaxagents.td3.TD3Hyperparameters].

    Attributes:
        value_weight: Weight of the normalised values relative to the imitation loss.
    """

    value_weight: Traced = hyperparameter(2.5, 0.0)


class TD3BCLearner(TD3Learner):
    """TD3+BC's learner for continuous actions.

    Fujimoto & Gu, 2021, "A minimalist approach to offline reinforcement learning". It updates its
    networks in the same order as [`TD3Learner`][jaxagents.td3.TD3Learner].
    """

    hyperparams: HyperParameters = struct.field()

    _hyperparams_type = HyperParameters

    def _actor_loss(
        self, params: PyTree, critic: TrainState, batch: Batch
    ) -> tuple[Float[Array, ""], Info]:
        r"""The policy's loss: equations 4 and 5, negated.

        $$\operatorname{mean}\left((\pi(s) - a)^2\right)
        - \frac{\alpha}{\operatorname{mean} |Q|} \operatorname{mean} Q, \qquad Q = Q_1(s, \pi(s))$$

        The `weights` of a batch, if it has any, apply to the first term, which imitates the data.
        """
        actions = self.actor(batch["observations"], params=params).mode()
        values = critic(batch["observations"], actions)[0]
        size = jax.lax.stop_gradient(jnp.maximum(jnp.abs(values).mean(), _SMALLEST_SIZE))
        distances = jnp.square(actions - batch["actions"]).mean(axis=-1)
        distance = weighted_mean(distances, batch)
        loss = distance - self.hyperparams.value_weight / size * values.mean()
        return loss, {"actor_loss": loss, "mse": distance}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OfflineAgentConfig, TD3Config):
    """Static configuration of the agent: its learner's fields, and the training settings.

    Attributes:
        normalise_observations: Whether to normalise observations to zero mean and unit variance, with
            the dataset's statistics.
    """

    normalise_observations: bool = True


class TD3BC(OfflineBase[AgentConfig, HyperParameters]):
    """TD3+BC for continuous actions, with a dataset on the device.

    ```python
    agent = TD3BC(env, env_params, AgentConfig(n_steps=20_000), dataset=dataset)
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = TD3BCLearner
