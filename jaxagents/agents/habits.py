"""Methods that agents of other libraries have, and what is called here instead."""

_ACT = "call act(training, carry, obs), or policy for an agent without a memory"

HABITS = {
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
