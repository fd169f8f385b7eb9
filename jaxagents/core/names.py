"""Advice on names that are misspelt, or come from other libraries or version 0.2.5."""

import dataclasses
import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable
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
        advice: Additional sentences of the message.
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
    "clip_coef": "eps_clip",
    "clip_eps": "eps_clip",
    "ent_coef": "ent_coeff",
    "vf_coef": "vf_coeff",
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
    "n_eval_episodes": "n_evals",
    "num_eval_episodes": "n_evals",
    "n_episodes": "n_evals",
    "num_episodes": "n_evals",
    "progress_bar": "progress",
    "callback": "callbacks",
    "anneal_lr": "anneal_learning_rate",
    "log_dir": "run_dir",
    "logdir": "run_dir",
    "exp_name": "run_dir",
    "render": "film",
    "video": "film",
    "record_video": "film",
    "capture_video": "film",
}
_TOTALS = ("total_timesteps", "total_steps", "total_env_steps", "num_timesteps", "n_timesteps")
_OF_OPTIMIZERS = ("learning_rate", "eps", "grad_clip")
_OF_NETWORKS = ("features", "activation")
_GONE = {"deterministic_mode": "0.2.5 had it and never read it"}
_TRAIN = "call agent.train(seed, hyperparams)"
_ACT = "call agent.policy(obs), or with a memory agent.act(training, carry, obs)"
_PLACES = (
    "leave it out, as JAX uses the accelerator that it finds, or the one that JAX_PLATFORMS names; in "
    "Python, train(mesh=...) uses several"
)
_COPIES = (
    "set n_envs in the configuration of an agent, which makes that many copies of its environment"
)
_NORMALISED = "set normalise_observations and normalise_rewards in the configuration of an agent"
_PARAMS = "read parameters in agent.training_runner, such as agent.actor_training.params for PPO"
_METRICS = "read returns and lengths of episodes in the metrics that train and eval return"
_FILM = "call agent.render_episode(seed, path) after training, or jaxagents eval FOLDER --film FILE"
_ENV = "the environment has a place of its own: PPO(env, None, config), or jaxagents train ppo ENV"
_IN_MODULES = "import it from the module of an agent, such as jaxagents.ppo"
_LOGS = (
    "pass loggers to train, such as loggers=[{}], in Python; the command line writes metrics.jsonl"
)
_TENSORBOARD, _WANDB = _LOGS.format("TensorBoardLogger(folder)"), _LOGS.format("WandbLogger()")
ELSEWHERE = {
    # Methods.
    "learn": _TRAIN,
    "fit": _TRAIN,
    "predict": _ACT,
    "get_action": _ACT,
    "select_action": _ACT,
    "save": "set checkpoint_dir in the configuration, and train saves checkpoints; "
    "agent.export_policy(path) writes the policy alone",
    "load": "set checkpoint_dir in the configuration, and call agent.restore()",
    "to": _PLACES,
    "cuda": _PLACES,
    "get_env": "read agent.env",
    "set_env": "make another agent, and pass agent.training_runner to its train(runner=...)",
    "set_random_seed": "pass the seed to train and eval",
    "get_parameters": _PARAMS,
    "parameters": _PARAMS,
    "state_dict": _PARAMS,
    "_replace": "call replace(...)",
    "_asdict": "call dataclasses.asdict(...)",
    # Arguments.
    "policy": "leave it out for an MLP; other networks are fields of the configuration, such as "
    "actor_network and critic_network",
    "policy_kwargs": "networks are fields of the configuration, such as actor_network="
    "CategoricalActor(n_actions, features=(64, 64))",
    "env": _ENV,
    "env_id": _ENV,
    "env_name": _ENV,
    "device": _PLACES,
    "seed": "pass it to train and eval as their first argument, as in agent.train(0)",
    "verbose": "train shows its progress, unless it is given progress=False",
    "total_timesteps": "set it in the configuration, or pass a number of updates, n_steps, to train",
    "log_interval": "set eval_frequency in the configuration; metrics are logged at each evaluation",
    "tensorboard_log": _TENSORBOARD,
    "tb_log_name": _TENSORBOARD,
    "track": _WANDB,
    "wandb_project_name": _WANDB,
    "normalize_advantage": "leave it out: PPO standardises the advantages of each minibatch",
    "norm_adv": "leave it out: PPO standardises the advantages of each minibatch",
    "anneal_lr": "make the learning rate a schedule, such as LinearSchedule(3e-4, 0.0, n_steps)",
    "render": _FILM,
    "record_video": _FILM,
    "render_mode": _FILM,
    "capture_video": _FILM,
    # Classes and functions.
    "AgentConfig": _IN_MODULES,
    "HyperParameters": _IN_MODULES,
    "OptimizerParams": _IN_MODULES,
    "VecNormalize": _NORMALISED,
    "NormalizeObservation": _NORMALISED,
    "NormalizeReward": _NORMALISED,
    "VecFrameStack": "wrap the environment in jaxagents.envs.FrameStack",
    "make_vec_env": _COPIES,
    "DummyVecEnv": _COPIES,
    "SubprocVecEnv": _COPIES,
    "Monitor": f"{_METRICS}; your own loops can use jaxagents.host.EpisodeMonitor",
    "RecordEpisodeStatistics": _METRICS,
    "LogWrapper": _METRICS,
    "RecordVideo": _FILM,
    "TimeLimit": "set max_episode_steps in the configuration of an agent",
    "evaluate_policy": "call agent.eval(seed, n_evals), or jaxagents.host.evaluate in your own loop",
    "BaseCallback": "subclass jaxagents.callbacks.Callback, or pass functions: train(callbacks=[...])",
    "EvalCallback": "set eval_frequency in the configuration of an agent",
    "CheckpointCallback": "set checkpoint_dir in the configuration of an agent",
}
"""Methods, arguments, classes and functions of other libraries, and what to do here instead."""


def advice(name: str, known: Collection[str], owner: type | None = None) -> str:
    """Advice on a name that is unknown.

    Args:
        name: The given name.
        known: The known names.
        owner: The class that it was given to. The `AgentConfig` and `HyperParameters` in its module are
            searched too.

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
            "It learns from a dataset, in n_updates updates of gradient_steps gradient steps "
            "each, and takes no environment steps."
        )
    if name in ELSEWHERE:
        return f"{ELSEWHERE[name][0].upper()}{ELSEWHERE[name][1:]}."
    if name in _GONE:
        return f"{_GONE[name]}: leave it out."
    hyperparams, config = (_fields_beside(owner, x) for x in ("HyperParameters", "AgentConfig"))
    of_optimizers = {"actor_optimizer_params", "actor_epochs"} & {*known, *hyperparams, *config}
    own = ours.removeprefix("actor_").removeprefix("critic_")
    if own in _OF_OPTIMIZERS and of_optimizers:
        return (
            f"It is a parameter of the optimizers: HyperParameters(actor_optimizer_params="
            f"OptimizerParams({own}=...)), and critic_optimizer_params likewise."
        )
    if ours in _OF_NETWORKS and "critic_epochs" in {*known, *config}:
        return (
            "It is a field of the networks: "
            f"actor_network=jaxagents.networks.CategoricalActor(n_actions, {ours}=...), "
            f"critic_network=jaxagents.networks.StateCritic({ours}=...)."
        )
    rates = [field for field in (*known, *hyperparams) if field.endswith("_learning_rate")]
    if ours == "learning_rate" and rates:
        return f"Learning rates, such as {rates[0]}, are fields of HyperParameters."
    if ours in hyperparams:
        return f"It is a hyperparameter: HyperParameters({ours}=...)."
    if ours in config:
        return f"It is a field of the configuration: AgentConfig({ours}=...)."
    return ""


def _fields_beside(owner: type | None, kind: str) -> list[str]:
    """The fields of a class in the module of another class, or in the module of a base class of it."""
    for base in () if owner is None else owner.__mro__:
        fields = _fields_of(getattr(sys.modules.get(base.__module__), kind, None))
        if fields:
            return fields
    return []


_AGENTS = {
    "PPOAgent": "PPOBase, or the complete PPO",
    "PPOAgentBase": "PPOBase",
    "IPPOAgent": "IPPOBase, or the complete IPPO",
    "ReinforceAgent": "REINFORCEBase, or the complete REINFORCE",
    "DQN_Agent": "DQN",
    "DDQN_Agent": "DDQN",
    "CategoricalDQN_Agent": "C51",
    "QRDDQN_Agent": "QRDQN",
    "TruncationWrapper": "the field max_episode_steps of the configuration",
}
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
        if name in ELSEWHERE:
            raise ImportError(f"{module} has no {name}: {ELSEWHERE[name]}.")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def former_module(name: str) -> ImportError:
    """The error for a removed module of 0.2.5.

    Args:
        name: Its full name.

    Returns:
        The error, which names the replacement.
    """
    return ImportError(_has_moved(f"{name} was part of 0.2.5", _MODULES[name.rpartition(".")[2]]))


def _has_moved(what: str, place: str) -> str:
    return f"{what}; use {place}. See Migrating in the guide."


def missing_attribute(owner: object, name: str) -> Any:
    """Raises the error for an attribute that Python did not find, with advice if there is any.

    Args:
        owner: The object, or a class.
        name: Name of the attribute.

    Raises:
        AttributeError: Always.
    """
    kind = owner if isinstance(owner, type) else type(owner)
    if name in ELSEWHERE:
        raise AttributeError(f"{kind.__name__} has no {name!r}: {ELSEWHERE[name]}.")
    if kind is owner:
        return type.__getattribute__(kind, name)
    return object.__getattribute__(owner, name)  # names what was missing, also in a property


def says_where_arguments_belong(method: MethodT) -> MethodT:
    """Decorates a method of an agent with advice on unknown arguments.

    Args:
        method: The method.

    Returns:
        The method.
    """
    known = inspect.signature(method).parameters

    @functools.wraps(method)
    def checked(agent: Any, *args: Any, **options: Any) -> Any:
        for name in options.keys() - known.keys():
            raise TypeError(
                f"{method.__name__} takes no {name}. {hint_for(name, known, type(agent))}"
            )
        return method(agent, *args, **options)

    return cast(MethodT, checked)


def hint_for(name: str, known: Collection[str], owner: type) -> str:
    """Advice on an unknown argument: the nearest name, or else all of them."""
    arguments = f"Its arguments are: {', '.join(x for x in known if x != 'self')}."
    return advice(name, known, owner) or did_you_mean(name, known) or arguments


def refuse_assignment(owner: Any, name: str, value: object) -> NoReturn:
    """The `__setattr__` of frozen dataclasses, whose error says how to make a changed copy.

    Raises:
        FrozenInstanceError: Always.
    """
    kind = type(owner)
    variable = re.sub(".*(?=[A-Z])", "", kind.__name__).lower()
    variable = variable.replace("parameters", "hyperparams")
    fields = _fields_of(kind)
    others = [
        field for field in fields if field != "config"
    ]  # on which a learner's networks depend
    nested = [field for field in others if name in _fields_of(getattr(owner, field))]
    change = f"{name}={value!r}" if isinstance(value, bool | int | float | str) else f"{name}=..."
    if name not in fields and not nested:
        hint = advice(name, fields, kind) or did_you_mean(name, fields)
        told = f"{kind.__name__} is frozen, and has no field '{name}'. {hint}"
        raise dataclasses.FrozenInstanceError(told.rstrip())
    if name not in fields:
        change = f"{nested[0]}={variable}.{nested[0]}.replace({change})"
    raise dataclasses.FrozenInstanceError(
        f"{kind.__name__} is frozen: make a changed copy, {variable} = {variable}.replace({change})."
    )


def _fields_of(dataclass: Any) -> list[str]:
    """The names that `replace` of a dataclass takes; none for anything without fields or `replace`."""
    if not (dataclasses.is_dataclass(dataclass) and hasattr(dataclass, "replace")):
        return []
    own = [field.name for field in dataclasses.fields(dataclass) if field.init]
    return own + getattr(dataclass, "other_names", list)()


def about_arguments(error: TypeError) -> str:
    """The mistake in a constructor call with the wrong arguments.

    Args:
        error: The error, caught where the constructor is called.

    Returns:
        For example `missing 1 required positional argument: 'config'`; empty for other errors.
    """
    _, called, fault = str(error).partition(".__init__() ")
    was_raised_inside = error.__traceback__ is None or error.__traceback__.tb_next is not None
    return fault if called and not was_raised_inside else ""
