"""Hooks of 0.2.5 that are gone, and what takes their place."""

_NETWORKS = "config.actor_network and config.critic_network, or _actor_network and _critic_network"
_CHECKPOINTS = "config.checkpoint_dir"
_TARGETS = "_trajectory_returns and _trajectory_advantages"
_ACTOR = "_actor_loss, with config.actor_epochs and _kl_threshold"
_CRITIC = "_critic_loss, with config.critic_epochs"

FORMER_HOOKS = {
    "_sample_action": "_sample_actions",
    "_init_env": "the environment that the agent is given",
    "_init_checkpointer": _CHECKPOINTS,
    "_checkpoint_base": _CHECKPOINTS,
    "_init_optimizer": "config.optimizer",
    "_init_network": _NETWORKS,
    "_create_empty_trainstate": _NETWORKS,
    "_make_transition": "_actor_loss_input and _critic_loss_input, which are given the rollout",
    "_generate_metrics": "what the losses report, and _eval_metrics",
    "_create_training": "_create_runner",
    "_create_update_runner": "_create_runner",
    "_make_rollout_runners": "_rollout",
    "_add_next_values": _TARGETS,
    "_add_advantages": _TARGETS,
    "_process_trajectory": _TARGETS,
    "_actor_minibatch_update": _ACTOR,
    "_actor_epoch": _ACTOR,
    "_actor_update": _ACTOR,
    "_actor_training_cond": "_kl_threshold",
    "_critic_minibatch_update": _CRITIC,
    "_critic_epoch": _CRITIC,
    "_critic_update": _CRITIC,
    "_eval_agent": "_eval_metrics",
    "_eval_body": "_eval_metrics",
    "_eval_cond": "config.max_episode_steps",
}
