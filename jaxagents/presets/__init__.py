"""Settings that were tuned, by name: those of the results pages."""

from typing import Any, NamedTuple

from jaxagents.catalogue import CATALOGUE
from jaxagents.core.nearest import unknown
from jaxagents.presets.settings import PRESETS, Settings

__all__ = ["Preset", "preset", "preset_names"]


class Preset(NamedTuple):
    """An agent in an environment, with all that it needs but data.

    Attributes:
        env: The name of the environment, for `gymnax.make`.
        agent: The class of the agent.
        config: Its configuration.
        hyperparams: Its hyperparameters.
        anneals: Whether the optimizer of the configuration has the learning rate fall to zero.
    """

    env: str
    agent: type[Any]
    config: Any
    hyperparams: Any
    anneals: bool


def preset_names() -> list[str]:
    """The names of all presets: the agent, and the environment in small letters."""
    return list(PRESETS)


def preset(name: str) -> Preset:
    """The settings of a name.

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
        ValueError: There is no such name; the error says which is nearest.
    """
    if name not in PRESETS:
        raise ValueError(unknown("preset", name, PRESETS))
    settings = PRESETS[name]
    agent, config_type, hyperparams_type = CATALOGUE[settings.agent].types()
    if settings.holds_noise:
        from jaxagents.presets.held_noise import HeldNoiseTD3

        agent = HeldNoiseTD3
    config = config_type(**settings.config, **_encoder(settings))
    if settings.anneals:
        from jaxagents.agents.annealing import annealed

        config = annealed(config)
    changing = {**_optimizers(settings), **_schedules(settings)}
    hyperparams = hyperparams_type(**settings.hyperparams, **changing)
    return Preset(settings.env, agent, config, hyperparams, settings.anneals)


def _encoder(settings: Settings) -> dict[str, Any]:
    if not settings.sees_images:
        return {}
    from jaxagents.networks import ObservationEncoder

    return {"encoder": ObservationEncoder((3,), padding="VALID")}


def _optimizers(settings: Settings) -> dict[str, Any]:
    if not settings.optimizers:
        return {}
    from jaxagents.learners.optimizer import OptimizerParams

    return {name: OptimizerParams(**params) for name, params in settings.optimizers.items()}


def _schedules(settings: Settings) -> dict[str, Any]:
    if not settings.schedules:
        return {}
    from jaxagents.core.schedules import LinearSchedule

    return {name: LinearSchedule(**line) for name, line in settings.schedules.items()}
