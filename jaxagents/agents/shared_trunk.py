"""A trunk that actor and critic share: it is trained with the actor, by the losses of both."""

from jaxtyping import PyTree

from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.sequences import Sequence, outputs_of, samples
from jaxagents.learners.memory import initial_carry, step
from jaxagents.learners.train_state import TrainState
from jaxagents.networks.encoding import BehindTrunk, features_beside

_TRUNK, _NETWORK = "trunk", "network"


def network_of(actor: TrainState) -> TrainState:
    """The actor's own network, which sees features.

    Args:
        actor: State of the training of the trunk and the actor behind it.

    Returns:
        The network, with no optimizer of its own, and with those variables that are neither's alone.
    """
    network, extra = _part(actor, _NETWORK), actor.extra_variables
    of_both = {
        kind: parts for kind, parts in extra.items() if not parts.keys() <= {_TRUNK, _NETWORK}
    }
    return network.replace(extra_variables={**network.extra_variables, **of_both})


def critic_behind(actor: TrainState, critic: TrainState) -> TrainState:
    """The critic behind the trunk of an actor.

    Args:
        actor: State of the training of the trunk and the actor behind it.
        critic: State of the training of the critic, which sees features.

    Returns:
        The whole critic, which sees observations, with no optimizer of its own.
    """
    trunk = _part(actor, _TRUNK)
    names = {*trunk.extra_variables, *critic.extra_variables}
    parts = {_TRUNK: trunk, _NETWORK: critic}
    return TrainState(
        step=critic.step,
        params={name: part.params for name, part in parts.items()},
        opt_state=None,
        extra_variables={
            kind: {
                name: part.extra_variables[kind]
                for name, part in parts.items()
                if kind in part.extra_variables
            }
            for kind in names
        },
        model_def=BehindTrunk(critic.model_def, trunk.model_def),
    )


def whole_critic(config: OnPolicyConfig, actor: TrainState, critic: TrainState) -> TrainState:
    """The critic from observations to values, of the networks in training."""
    return critic if config.trunk is None else critic_behind(actor, critic)


def features_of(actor: TrainState, inputs: PyTree) -> PyTree:
    """The trunk's features of a minibatch.

    Args:
        actor: State of the training of the trunk and the actor behind it.
        inputs: Observations, samples first; or sequences of them.

    Returns:
        Features, samples first, with all that observations say beside.
    """
    trunk = _part(actor, _TRUNK)
    features = outputs_of(trunk, inputs)
    obs = samples(inputs.obs) if isinstance(inputs, Sequence) else inputs
    return features_beside(obs, features)


def features_at(actor: TrainState, obs: PyTree) -> PyTree:
    """The trunk's features of the first observation of an episode.

    Args:
        actor: State of the training of the trunk and the actor behind it.
        obs: One observation.

    Returns:
        Features, with all that the observation says beside.
    """
    trunk = _part(actor, _TRUNK)
    _, features = step(trunk, initial_carry(trunk.model_def), obs)
    return features_beside(obs, features)


def share(
    trainings: list[TrainState], inputs: list[PyTree]
) -> tuple[list[TrainState], list[PyTree]]:
    """Has the losses of actor and critic see the features of one trunk; see `Share`."""
    actor, critic = trainings
    (seen_by_actor, *of_actor), (_, *of_critic) = inputs
    features = features_of(actor, seen_by_actor)
    return [network_of(actor), critic], [(features, *of_actor), (features, *of_critic)]


def _part(training: TrainState, name: str) -> TrainState:
    """A part of a network behind a trunk."""
    extra = training.extra_variables
    return TrainState(
        step=training.step,
        params=training.params.get(name, {}),
        opt_state=None,
        extra_variables={kind: parts[name] for kind, parts in extra.items() if name in parts},
        model_def=getattr(training.model_def, name),
    )
