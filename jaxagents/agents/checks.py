"""Checks of the arguments of agents, made on shapes alone, before anything is compiled."""

import contextlib
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import PyTree

from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.runners import AnyRunner
from jaxagents.core.arrays import is_traced
from jaxagents.core.describe import name_of
from jaxagents.core.hook_names import is_own
from jaxagents.core.keys import as_key
from jaxagents.core.trees import leaves_by_name
from jaxagents.envs.environment import Environment
from jaxagents.envs.play import NAMES_OF_METRICS
from jaxagents.envs.spaces import Space, is_discrete
from jaxagents.learners.learner import Learner
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import Normalised, NormalisedRecurrent, Recurrent

_OF_EVALUATIONS = ("terminated", "truncated", "final_rewards", "returns")
"""Names that `_eval_metrics` gives by itself."""


def check_eval_rng(rng: object) -> None:
    """Raises if `config.eval_rng` is neither `None` nor a random key."""
    if rng is not None:
        as_key(rng)


def check_are_classes(agent: str, kinds: Iterable[object]) -> None:
    """Raises unless what an agent says of its configuration and hyperparameters are classes.

    Args:
        agent: Its name.
        kinds: What should be classes.

    Raises:
        TypeError: One of them is an object.
    """
    for kind in kinds:
        if not isinstance(kind, type):
            raise TypeError(
                f"{agent}._config_type and _hyperparams_type must be classes, got an object of "
                f"{name_of(type(kind))}: leave out the parentheses."
            )


def check_kind(owner: str, expected: type, given: object) -> None:
    """Raises unless something is of a class.

    Args:
        owner: Name of what is given it.
        expected: The class.
        given: What is given.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(given, expected):
        return
    name, found, hint = expected.__name__, f"a {name_of(type(given))}", ""
    if isinstance(given, type):
        found, hint = f"the class {name_of(given)}", f": pass {name}()"
    elif isinstance(given, Mapping):
        found, hint = f"a {type(given).__name__}", f": pass {name}(**fields)"
    elif type(given).__module__ == "builtins":
        found = repr(given)
    raise TypeError(f"{owner} takes a {name_of(expected)}, got {found}{hint}.")


def check_not_traced(env_params: PyTree) -> None:
    """Raises if the parameters of an agent's environment are traced, as within `jax.vmap`.

    Raises:
        TypeError: They are.
    """
    if any(map(is_traced, jax.tree.leaves(env_params))):
        raise TypeError(
            "The env_params that an agent is made with are static, but these are traced. Make the agent "
            "outside of jax.vmap and jax.jit, and give what varies among the hyperparameters, such as "
            "agent.train(rng, HyperParameters(env_params={'gravity': gravity}))."
        )


def learns_elsewhere(agent: str, env: Environment) -> str:
    """The message for an agent that is given an environment on the host, and does not play there."""
    message = f"{agent} plays in compiled environments alone, and {env.name} runs on the host."
    if env.n_actors is not None:
        return f"{message} Train its actors with IPPO or MAPPO, which play in it by themselves."
    return (
        f"{message} Train a learner in it with jaxagents.host.train_online, or on a dataset with "
        "train_offline; or take an on-policy agent such as PPO, which plays in it by itself."
    )


def check_discrete_action(action: PyTree, space: Space, agent: str, env: str) -> None:
    """Raises if an action of a discrete space is no whole number.

    Args:
        action: The action, as shapes.
        space: The space of actions.
        agent: Name of the agent.
        env: Name of the environment.

    Raises:
        TypeError: It is not.
    """
    for leaf in jax.tree.leaves(action) if is_discrete(space) else []:
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise TypeError(
                f"{agent}: actions of {env} are discrete, and must be whole numbers, such as those of "
                f"jnp.argmax or jax.random.categorical, got {leaf.dtype}."
            )


def check_memory(agent: str, config: OnPolicyConfig, **networks: nn.Module) -> None:
    """Raises if a configuration does not fit networks with or without a memory.

    Args:
        agent: Name of the agent.
        config: The configuration.
        **networks: The networks, by their fields of the configuration.

    Raises:
        TypeError: The configuration asks for a memory that a default network does not have.
        ValueError: Groups of environments cannot share the sequences of a minibatch equally.
    """
    has_memory = {name: isinstance(network, Recurrent) for name, network in networks.items()}
    forgetful = [name for name in networks if not has_memory[name] and not getattr(config, name)]
    if config.memory is not None and forgetful:
        raise TypeError(
            f"{agent}._{forgetful[0]} makes a network without a memory, although "
            f"config.memory={config.memory!r}: make one with a memory, such as a WithMemory, and leave "
            "config.memory alone."
        )
    if not any(has_memory.values()):
        return
    n_sequences, left = divmod(config.batch_size, config.n_minibatches)
    if left:
        raise ValueError(
            "With a network with a memory, minibatches hold whole environments: minibatches_per_epoch "
            f"must divide batch_size ({config.batch_size}), got {config.n_minibatches}."
        )
    if n_sequences % config.n_groups:
        raise ValueError(
            f"With a network with a memory, n_groups must divide the {n_sequences} environments of a "
            f"minibatch, got {config.n_groups}."
        )


def check_behind_trunk(agent: str, **networks: nn.Module) -> None:
    """Raises if a network that sees what a trunk makes of observations has what belongs into the trunk.

    Args:
        agent: Name of the agent.
        **networks: The networks behind the trunk, by their fields of the configuration.

    Raises:
        TypeError: One of them has a memory, or statistics of observations.
    """
    kinds = Normalised | NormalisedRecurrent
    normalised = [name for name, network in networks.items() if isinstance(network, kinds)]
    if normalised:
        raise TypeError(
            f"{agent}: with config.trunk, {normalised[0]} sees no observations: put Normalised around "
            "the trunk instead, or set normalise_observations=True."
        )
    remembering = [name for name, network in networks.items() if isinstance(network, Recurrent)]
    if remembering:
        raise TypeError(
            f"{agent}: with config.trunk, the memory of {remembering[0]} belongs into the trunk, which "
            "alone sees observations in their order."
        )


def check_variables_are_kept(
    agent: str, own: Iterable[TrainState], made: Iterable[TrainState]
) -> None:
    """Raises if a hook has replaced the variables of networks, where it meant to add some.

    Args:
        agent: Name of the agent.
        own: Actor and critic as the base makes them.
        made: Actor and critic as the hook makes them.

    Raises:
        ValueError: Variables are missing that a network of the base has.
    """
    for what, before, after in zip(("actor", "critic"), own, made, strict=True):
        lost = sorted(before.extra_variables.keys() - after.extra_variables.keys())
        if lost and before.model_def == after.model_def:
            raise ValueError(
                f"{agent}._create_networks drops {lost} from the extra_variables of the {what}, which "
                f"its network needs: keep them, as in {{**{what}.extra_variables, 'mine': ...}}."
            )


@contextlib.contextmanager
def naming_observations(
    obs: PyTree, expected: PyTree, batches: bool = False, method: str = "policy"
) -> Iterator[None]:
    """Where a method fails since it is given something other than an observation, raises for that.

    Args:
        obs: What it is given.
        expected: One observation, as shapes.
        batches: Whether it also takes a batch of observations.
        method: Its name.

    Raises:
        ValueError: Structure or shape differ.
    """
    try:
        yield
    except Exception:
        _check_observation(obs, expected, batches, method)
        raise


def check_dataset_observations(
    observations: PyTree, expected: PyTree, key: str = "observations"
) -> None:
    """Raises unless a dataset's observations are those of an environment.

    Args:
        observations: Arrays with a leading axis of rows.
        expected: One observation of the environment, as shapes.
        key: Their key in the dataset.

    Raises:
        ValueError: Structure or shape differ.
    """
    found = jax.tree.map(lambda x: tuple(x.shape[1:]), observations)
    own = jax.tree.map(lambda x: tuple(x.shape), expected)
    if found != own:
        raise ValueError(
            f"The dataset's {key} have shape {found}, but those of the environment have {own}."
        )


def check_distribution(distribution: PyTree, methods: Iterable[str], hook: str) -> None:
    """Raises unless a hook gives a distribution of actions.

    Args:
        distribution: What it gives.
        methods: The methods that are needed.
        hook: Name of the hook, for the message.

    Raises:
        TypeError: A method is missing or takes no random key, or it is no pytree.
    """
    kind = type(distribution).__name__
    wanted = (
        f"{hook} must return a distribution, such as jaxagents.ops.Categorical(logits), with "
        "sample(key), log_prob(action), entropy() and mode()"
    )
    missing = [name for name in methods if not callable(getattr(distribution, name, None))]
    if missing:
        is_array = hasattr(distribution, "dtype")
        given = f"an array of shape {distribution.shape}" if is_array else f"a {kind}"
        raise TypeError(f"{wanted}, got {given}, which lacks {', '.join(missing)}.")
    try:
        inspect.signature(distribution.sample).bind(None)
    except TypeError as error:
        raise TypeError(
            f"{wanted}, but {kind}.sample takes no key by position: write a class whose sample(key) "
            "calls it, such as self.inner.sample(seed=key)."
        ) from error
    if not all(map(_is_numeric, jax.tree.leaves(distribution))):
        raise TypeError(
            f"{wanted}, and {kind} is no pytree, of which a policy can be compiled: make it a "
            "flax.struct.dataclass."
        )


def check_runner(runner: object, before: AnyRunner, hook: str) -> None:
    """Raises unless a hook returns a runner.

    Args:
        runner: What it returns.
        before: The runner that it was given.
        hook: Name of the hook, for the message.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(runner, type(before)):
        raise TypeError(
            f"{hook} must return the runner after it, such as runner.replace(...), got a "
            f"{type(runner).__name__}."
        )


def check_update(runner: AnyRunner, before: AnyRunner, agent: str) -> None:
    """Raises unless an update is counted, and reports what was reported before it, one number each.

    Args:
        runner: The runner after it.
        before: The runner before it.
        agent: Name of the agent.

    Raises:
        ValueError: It is not, or does not.
    """
    step = f"{agent}._training_step, or a step that it calls,"
    if runner.update_step is before.update_step:
        raise ValueError(
            f"{step} does not count the update: return runner.replace(update_step=runner.update_step + "
            "1, ...)."
        )
    odd = sorted(runner.info.keys() ^ before.info.keys())
    if odd:
        raise ValueError(
            f"{step} changes which entries runner.info has, by {odd}: they are the same after every "
            "update. Report numbers of your own in the dict that a loss returns."
        )
    maker = "_create_networks or _create_runner"
    check_same_arrays(runner.replace(info={}), before.replace(info={}), step, maker)
    shapes = {name: jnp.shape(x) for name, x in runner.info.items() if jnp.ndim(x)}
    if shapes:
        raise ValueError(
            f"{agent}: what an update reports is one number each, got the shapes {shapes}: give their "
            "means."
        )


def check_same_arrays(after: PyTree, before: PyTree, step: str, maker: str) -> None:
    """Raises if an update adds arrays to what it is carried in, or drops some.

    Args:
        after: What is carried, after it.
        before: The same before it.
        step: What makes the update, for the message.
        maker: What makes the arrays before the first.

    Raises:
        ValueError: It does.
    """
    odd = sorted(leaves_by_name(after).keys() ^ leaves_by_name(before).keys())
    if odd:
        raise ValueError(
            f"{step} changes which arrays there are, by {odd}: they are the same before every update. "
            f"Have {maker} make what is to be remembered."
        )


def check_metrics(metrics: object, n_episodes: int, agent: str) -> None:
    """Raises if what `_eval_metrics` returns cannot be the metrics of an evaluation.

    Args:
        metrics: What it returns.
        n_episodes: Number of episodes.
        agent: Name of the agent.

    Raises:
        TypeError: It is no dict of arrays.
        ValueError: There are no returns, or not one for each episode, or a name is taken.
    """
    what = f"{agent}._eval_metrics"
    if not isinstance(metrics, dict):
        raise TypeError(
            f"{what} must return a dict of arrays, got a {type(metrics).__name__}: add entries to that "
            "of super()._eval_metrics(...), and return it."
        )
    for name, entry in metrics.items():
        if not isinstance(name, str) or not _is_numeric(entry):
            raise TypeError(
                f"{what} must return a dict of arrays by name, but gives {entry!r} for {name!r}: give "
                "an array or a number."
            )
    taken = [name for name in metrics if name in NAMES_OF_METRICS and name not in _OF_EVALUATIONS]
    if taken:
        raise ValueError(f"{what} gives {taken}, which names another metric: rename it.")
    if "returns" not in metrics:
        raise ValueError(
            f"{what} must give 'returns', by which the best checkpoint is found, but gives "
            f"{sorted(metrics)}: add entries to those of super()._eval_metrics(...)."
        )
    shape = jnp.shape(metrics["returns"])
    if shape[:1] != (n_episodes,):
        raise ValueError(
            f"{what} must give 'returns' of each of the {n_episodes} episodes, got shape {shape}: leave "
            "those of super()._eval_metrics(...) as they are, and give others under a name of their own."
        )


def check_apart(metrics: Iterable[str], reported: Collection[str], agent: str) -> None:
    """Raises if an evaluation would take the place of what updates report.

    Args:
        metrics: Names of its metrics.
        reported: Names of what updates report.
        agent: Name of the agent.

    Raises:
        ValueError: It would.
    """
    taken = [name for name in metrics if name in reported]
    if taken:
        raise ValueError(
            f"{agent}._eval_metrics gives {taken}, which updates report already: rename it."
        )


def check_no_hooks(agent: type, learner: type[Learner]) -> None:
    """Raises if an agent has a hook of its learner, which would never be called.

    Args:
        agent: Its class.
        learner: The class of its learner.

    Raises:
        TypeError: It has one.
    """
    for hook in (*learner.hooks, "_initial", "_policy"):
        if getattr(agent, hook, None) is not None:
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: {hook} is a hook of the learner. Put "
                f"it there, and name that learner:\n\n"
                f"    class MyLearner({learner.__name__}):\n"
                f"        def {_signature(learner, hook)}: ...\n\n"
                f"    class {agent.__name__}({agent.__mro__[1].__name__}):\n"
                f"        {_place(learner)} = MyLearner"
            )


def check_no_hooks_of_rollouts(agent: type, hooks: Iterable[str]) -> None:
    """Raises if an agent around a learner has a hook of agents that learn by losses of rollouts.

    Args:
        agent: Its class.
        hooks: Names of the hooks of those.

    Raises:
        TypeError: It has one.
    """
    for hook in hooks:
        if is_own(agent, hook):
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: it is a hook of PPO and its like, "
                "subclasses of OnPolicyBase. Of other agents, the learner says what is learned, and an "
                "environment changes by env_params of their hyperparameters, or in RandomParams. If it "
                "is a method of your own, give it another name."
            )


def _is_numeric(x: object) -> bool:
    """Whether something is an array or a number."""
    return hasattr(x, "dtype") or isinstance(x, bool | int | float)


def _signature(learner: type[Learner], hook: str) -> str:
    return f"{hook}({', '.join(inspect.signature(getattr(learner, hook)).parameters)})"


def _place(learner: type[Learner]) -> str:
    return "_discrete_learner" if learner.discrete_actions else "_continuous_learner"


def _check_observation(obs: PyTree, expected: PyTree, batches: bool, method: str) -> None:
    or_batch = ", or a batch of them" if batches else ""
    if isinstance(obs, list) and isinstance(expected, jax.ShapeDtypeStruct):
        raise ValueError(
            f"{method} takes one observation{or_batch}, as an array of shape {expected.shape}, got a "
            "list: give np.array(...)."
        )
    found, own = jax.tree.structure(obs), jax.tree.structure(expected)
    if found != own:
        raise ValueError(
            f"{method} takes one observation{or_batch}, structured as {own}, got {found}."
        )
    for leaf, one in zip(jax.tree.leaves(obs), jax.tree.leaves(expected), strict=True):
        shape = jnp.shape(leaf)
        is_batch = len(shape) > one.ndim and shape[len(shape) - one.ndim :] == one.shape
        if shape == one.shape or (batches and is_batch):
            continue
        if is_batch:
            raise ValueError(
                f"{method} takes one observation, of shape {one.shape}, got a batch of shape {shape}: "
                "map it over them, jax.vmap(agent.policy)(obs), or with a state of training "
                "jax.vmap(agent.policy, (None, 0))(training, obs)."
            )
        raise ValueError(
            f"{method} takes one observation, of shape {one.shape}{or_batch}, got shape {shape}."
        )
