"""Names that fields have in other libraries, or belong elsewhere, and the advice that helps."""

from collections.abc import Collection

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


def advice(name: str, known: Collection[str]) -> str:
    """Where what a name stands for is to be found, if it is not a field.

    Args:
        name: The name that was given.
        known: The names of the fields.

    Returns:
        A sentence; empty if nothing is known of the name.
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
    if ours in _TRACED and not _any(_TRACED, known) and _any(_OF_RUNS, known):
        return f"It is a hyperparameter: HyperParameters({ours}=...)."
    if ours in _OF_RUNS and not _any(_OF_RUNS, known) and _any((*_TRACED, *_OF_OPTIMIZERS), known):
        return f"It belongs to the configuration: AgentConfig({ours}=...)."
    return ""


def _any(names: Collection[str], known: Collection[str]) -> bool:
    return any(name in known for name in names)
