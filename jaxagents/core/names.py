"""Advice on names that are misspelt, or known from other libraries or from 0.2.5."""

import difflib
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeVar, cast

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def alike(name: str, known: Iterable[str], share: float = 0.5) -> str | None:
    """The known name that is most similar to another one, ignoring case.

    Args:
        name: The given name.
        known: The known names.
        share: Minimum similarity, up to 1 for equal names.

    Returns:
        The known name, or `None` if none is similar.
    """
    by_small_letters = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_small_letters, n=1, cutoff=share)
    return by_small_letters[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to another one or starts with it, if there is one."""
    known = list(known)
    longer = (candidate for candidate in known if candidate.lower().startswith(name.lower()))
    return alike(name, known) or next(longer, None)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name, which suggests the nearest known one.

    Args:
        kind: The kind of thing that it should name.
        name: The given name.
        known: The known names.

    Returns:
        A message of one line.
    """
    known = list(known)
    hint = did_you_mean(name, known) or f"There are: {', '.join(known)}."
    return f"There is no {kind} '{name}'. {hint}"


def check_known(
    kind: str,
    name: str,
    known: Iterable[str],
    advice: str = "",
    error: type[Exception] = ValueError,
) -> None:
    """Raises if a name is unknown.

    Args:
        kind: The kind of thing that it should name.
        name: The given name.
        known: The known names.
        advice: Further sentences of the message.
        error: The class of the error.

    Raises:
        Exception: The name is unknown; the message suggests the nearest known one.
    """
    known = list(known)
    if name not in known:
        raise error(unknown(kind, name, known) + advice)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the nearest known name; empty if none is similar."""
    near = nearest(name, known)
    return f"Did you mean '{near}'?" if near else ""


OTHER_NAMES = {
    "num_envs": "n_envs",
    "num_steps": "rollout_length",
    "unroll_length": "rollout_length",
    "num_updates": "n_updates",
    "num_minibatches": "minibatch_size",
    "num_epochs": "actor_epochs",
    "update_epochs": "actor_epochs",
    "n_epochs": "actor_epochs",
    "lr": "learning_rate",
    "max_grad_norm": "grad_clip",
    "discount": "gamma",
    "clip_range": "eps_clip",
    "target_kl": "kl_threshold",
    "target_update_rate": "tau",
    "hidden_dims": "features",
    "hidden_sizes": "features",
    "net_arch": "features",
    "actor_lr": "actor_learning_rate",
    "critic_lr": "critic_learning_rate",
    "polyak": "tau",
    "exploration_fraction": "epsilon_steps",
    "exploration_final_eps": "epsilon",
    "num_qs": "n_critics",
    "train_freq": "rollout_length",
    "buffer_capacity": "buffer_size",
    "utd_ratio": "gradient_steps",
    "target_update_interval": "target_update_period",
    "target_network_update_freq": "target_update_period",
}
_TOTALS = ("total_timesteps", "total_steps", "total_env_steps", "num_timesteps", "n_timesteps")
_OF_OPTIMIZERS = ("learning_rate", "eps", "grad_clip")
_OF_RUNS = (
    "n_steps",
    "n_updates",
    "total_timesteps",
    "batch_size",
    "n_envs",
    "minibatch_size",
    "rollout_length",
    "eval_frequency",
    "n_evals",
)
_TRACED = (
    "gamma",
    "gae_lambda",
    "eps_clip",
    "ent_coeff",
    "vf_coeff",
    "kl_threshold",
    "tau",
    "epsilon",
)
_GONE = {"deterministic_mode": "0.2.5 had it and never read it"}
_OF_NETWORKS = ("features", "activation")
_ELSEWHERE = {
    "policy": "Networks are fields of the configuration, such as actor_network and critic_network.",
    "policy_kwargs": "What it holds are fields of networks, such as actor_network=CategoricalActor("
    "n_actions, features=(64, 64)), or of the configuration.",
    "device": "JAX trains on the accelerator that it finds, train(mesh=...) on several: leave it out.",
    "seed": "Every training has its own: train(seed).",
    "verbose": "train(progress=False) shows nothing.",
    "tensorboard_log": "train(loggers=[TensorBoardLogger(folder)]) writes it.",
}
"""Arguments of other libraries' agents, and their equivalents here."""


def advice(name: str, known: Collection[str]) -> str:
    """Advice on a name that is not a field.

    Args:
        name: The given name.
        known: The names of the fields.

    Returns:
        A sentence; empty if there is no advice.
    """
    ours = OTHER_NAMES.get(name, name)
    if ours != name and ours in known:
        return f"Did you mean '{ours}'?"
    if name in _TOTALS and "start_steps" in known:
        return "Did you mean 'n_steps'? n_steps counts steps of the environment."
    if name in _TOTALS and "total_timesteps" in known:
        return "Did you mean 'total_timesteps'?"
    if (name in _TOTALS or ours == "n_envs") and "gradient_steps" in known:
        return (
            "It learns from a dataset, in n_updates updates of gradient_steps gradient steps, and takes "
            "no steps in an environment."
        )
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    if name in _GONE:
        return f"{_GONE[name]}: leave it out."
    if ours in _OF_OPTIMIZERS and ("actor_optimizer_params" in known or "actor_epochs" in known):
        return (
            f"It is a parameter of the optimizers: HyperParameters(actor_optimizer_params="
            f"OptimizerParams({ours}=...)), and critic_optimizer_params likewise."
        )
    if ours in _OF_NETWORKS and "critic_epochs" in known:
        return (
            f"It is a field of networks: actor_network=jaxagents.networks.CategoricalActor(n_actions, "
            f"{ours}=...), critic_network=jaxagents.networks.StateCritic({ours}=...)."
        )
    if ours == "learning_rate" and "gradient_steps" in known:
        return "Learning rates, such as critic_learning_rate, are fields of HyperParameters."
    traced, of_runs = ({*known} & {*names} for names in (_TRACED, _OF_RUNS))
    if ours in _TRACED and not traced and of_runs:
        return f"It is a hyperparameter: HyperParameters({ours}=...)."
    if ours in _OF_RUNS and not of_runs and (traced or {*known} & {*_OF_OPTIMIZERS}):
        return f"It belongs to the configuration: AgentConfig({ours}=...)."
    return ""


_AGENTS = {
    "PPOAgent": "PPOBase, or PPO, which is complete",
    "PPOAgentBase": "PPOBase",
    "IPPOAgent": "IPPOBase, or IPPO, which is complete",
    "ReinforceAgent": "REINFORCEBase, or REINFORCE, which is complete",
    "DQN_Agent": "DQN",
    "DDQN_Agent": "DDQN",
    "CategoricalDQN_Agent": "C51",
    "QRDDQN_Agent": "QRDQN",
    "TruncationWrapper": "the field max_episode_steps of the configuration",
}
_COPIES = "n_envs in the configuration of an agent, which makes as many copies of its environment"
_NORMALISED = "normalise_observations and normalise_rewards in the configuration of an agent"
_OF_OTHERS = {
    "VecNormalize": _NORMALISED,
    "NormalizeObservation": _NORMALISED,
    "NormalizeReward": _NORMALISED,
    "VecFrameStack": "jaxagents.FrameStack",
    "make_vec_env": _COPIES,
    "DummyVecEnv": _COPIES,
    "SubprocVecEnv": _COPIES,
    "Monitor": "agent.eval, or jaxagents.host.EpisodeMonitor in a loop of your own",
    "evaluate_policy": "agent.eval, or jaxagents.host.evaluate in a loop of your own",
    "EvalCallback": "eval_frequency in the configuration of an agent",
    "CheckpointCallback": "checkpoint_dir in the configuration of an agent",
}
"""Names of other libraries."""
_MODULES = {
    "utils": "jaxagents.ppo and jaxagents.ippo, for AgentConfig, HyperParameters and OptimizerParams",
    "depreceated": "jaxagents itself, for REINFORCE, DQN, DDQN, C51 and QRDQN",
}


def former_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module, with advice on names from 0.2.5 and other libraries.

    Args:
        module: Name of the module.

    Returns:
        The function.
    """

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        if name in _AGENTS:
            raise ImportError(_has_moved(f"{name} was the name in 0.2.5", _AGENTS[name]))
        if name in _OF_OTHERS:
            raise ImportError(f"{module} has no {name}; use {_OF_OTHERS[name]}.")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def former_module(name: str) -> ImportError:
    """The error for a removed module of 0.2.5.

    Args:
        name: Its full name.

    Returns:
        The error, which names the replacement.
    """
    return ImportError(_has_moved(f"{name} was a part of 0.2.5", _MODULES[name.rpartition(".")[2]]))


def _has_moved(what: str, place: str) -> str:
    return f"{what}; use {place}. See Migrating in the guide."


_ACT = (
    "call policy(obs); of PPO and its like policy(agent.actor_training, obs), or with a memory "
    "act(training, carry, obs)"
)
METHODS = {
    "learn": "call train(rng, hyperparams)",
    "fit": "call train(rng, hyperparams)",
    "predict": _ACT,
    "get_action": _ACT,
    "select_action": _ACT,
    "evaluate_policy": "call eval(rng, n_evals)",
    "save": "set checkpoint_dir in the configuration, and train saves by itself; export_policy(path) "
    "writes the policy alone",
    "load": "set checkpoint_dir in the configuration, and call restore",
}
"""Methods of agents in other libraries, and their equivalents here."""


def missing_attribute(owner: object, name: str, advice: Mapping[str, str]) -> Any:
    """Raises the error for an attribute that Python did not find, with advice if there is any.

    Args:
        owner: The object, or a class.
        name: Name of the attribute.
        advice: What to do instead, by name.

    Raises:
        AttributeError: Always.
    """
    kind = owner if isinstance(owner, type) else type(owner)
    if name in advice:
        raise AttributeError(f"{kind.__name__} has no {name!r}: {advice[name]}.")
    if kind is owner:
        return type.__getattribute__(kind, name)
    return object.__getattribute__(owner, name)  # names what was missing, also in a property


def named_elsewhere(**advice: str) -> Callable[[MethodT], MethodT]:
    """Decorates a method that has further arguments in other libraries.

    Args:
        **advice: What to do instead, by argument; such arguments raise a `TypeError`.

    Returns:
        The decorator.
    """

    def decorate(method: MethodT) -> MethodT:
        @functools.wraps(method)
        def checked(*args: Any, **options: Any) -> Any:
            for name in options.keys() & advice.keys():
                raise TypeError(f"{method.__name__} takes no {name}: {advice[name]}.")
            return method(*args, **options)

        return cast(MethodT, checked)

    return decorate
