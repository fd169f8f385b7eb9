"""Tuned settings by name, as on the results pages."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Key, PyTree

from jaxagents.agents.config import annealed
from jaxagents.catalogue import CATALOGUE, PRESETS
from jaxagents.core.hyperparameters import with_values
from jaxagents.core.names import check_known
from jaxagents.networks import ObservationEncoder
from jaxagents.td3 import TD3, TD3Learner


class Preset(NamedTuple):
    """An agent and an environment, with tuned settings.

    Attributes:
        env: Name of the environment, for `gymnax.make`.
        agent: Class of the agent.
        config: Its configuration.
        hyperparams: Its hyperparameters.
        anneals: Whether the configuration's optimizer anneals the learning rate to zero.
    """

    env: str
    agent: type[Any]
    config: Any
    hyperparams: Any
    anneals: bool


def preset_names() -> list[str]:
    """The names of all presets: the agent and the environment, in lower case."""
    return list(PRESETS)


def preset(name: str) -> Preset:
    """Looks up tuned settings by name.

    ```python
    chosen = preset("dqn-cartpole")
    agent = chosen.agent(*gymnax.make(chosen.env), chosen.config)
    runner, metrics = agent.train(jax.random.key(0), chosen.hyperparams)
    ```

    Args:
        name: One of [`preset_names`][jaxagents.presets.preset_names].

    Returns:
        The agent, its environment, its configuration and its hyperparameters.

    Raises:
        ValueError: There is no such preset; the error suggests the nearest name.
    """
    check_known("preset", name, PRESETS)
    settings = PRESETS[name]
    agent, config_type, hyperparams_type = CATALOGUE[settings.agent].types()
    config = config_type(**settings.config)
    if settings.sees_images:
        config = config.replace(encoder=ObservationEncoder((3,), padding="VALID"))
    if settings.anneals:
        config = annealed(config)
    hyperparams = with_values(hyperparams_type(), settings.hyperparams)
    agent = HeldNoiseTD3 if settings.holds_noise else agent
    return Preset(settings.env, agent, config, hyperparams, settings.anneals)


class HeldNoiseTD3(TD3):
    """TD3 with the same exploration noise for a whole update, for cars that must gain momentum."""

    def _explore(
        self, key: Key[Array, ""], learner: TD3Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> PyTree:
        return learner.sample_actions(obs, seed=jax.random.fold_in(learner.rng, 1))
