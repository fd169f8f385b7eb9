"""Mistakes with agents and their hooks."""

import jax
import jax.numpy as jnp
import numpy as np
from probes import BestAction, KnownValues, MatchSign

from jaxagents import DQN, IPPO, PPO, PPOBase, SACLearner, TD3Learner, ippo, load_policy
from jaxagents.callbacks import StopAfter
from jaxagents.loggers import ConsoleLogger
from mistakes.things import (
    agent,
    arrays,
    box_learner,
    copied,
    dqn_learner,
    key,
    keys,
    make_dqn,
    make_ppo,
    mine,
    runner,
    runner_of,
    stacked,
    train,
    trained,
)


class Keyed:
    """A distribution of another library, whose key has a name."""

    log_prob = entropy = mode = lambda *_: jnp.float32(0.0)

    def sample(self, *, seed):
        return jnp.int32(0)


class Unregistered(Keyed):
    """A distribution that JAX knows nothing of."""

    def sample(self, key):
        return jnp.int32(0)


class WithMore(BestAction):
    """An environment with the same observations, whose state holds more."""

    def reset_env(self, key, params):
        obs, state = super().reset_env(key, params)
        return obs, {"inner": state}

    def step_env(self, key, state, action, params):
        obs, inner, *rest = super().step_env(key, state["inner"], action, params)
        return obs, {"inner": inner}, *rest


def ppo_with(base=PPO, **hooks):
    return make_ppo(agent=mine(base, **hooks))


def update(learner, **columns):
    return learner.update(arrays(4, **columns))


def used_up(name):
    """A runner with an array that `advance` has used up."""
    runner_ = copied(runner())
    getattr(runner_, name).delete()
    return runner_


def write_and_load(path):
    path.write_bytes(b"pickled")
    load_policy(path)


box = np.zeros((4, 1), np.float32)
wide = np.zeros((4, 3), np.float32)

MISTAKES = {
    "A subclass of a base class without a policy": lambda: ppo_with(PPOBase),
    "A subclass of a base class with one of the four hooks of a policy": lambda: ppo_with(
        PPOBase, _sample_actions=lambda self, rng, training, obs: jnp.int32(0)
    ),
    "A `_distribution` that returns the output of the network": lambda: ppo_with(
        PPOBase, _distribution=lambda self, training, params, obs: training.apply_fn(params, obs)
    ),
    "A distribution whose `sample` takes the key by name only, as in distrax": lambda: ppo_with(
        PPOBase, _distribution=lambda self, training, params, obs: Keyed()
    ),
    "A distribution that is not a pytree": lambda: ppo_with(
        PPOBase, _distribution=lambda self, training, params, obs: Unregistered()
    ),
    "A misspelt hook, which would never be called": lambda: ppo_with(
        _kl_treshold=lambda self, hyperparams: 0.1
    ),
    "A hook that takes its arguments in another order": lambda: ppo_with(
        _entropy=lambda self, obs, training: jnp.zeros(())
    ),
    "A constructor that does not call the constructor of its base class": lambda: ppo_with(
        __init__=lambda self, env, env_params, config: setattr(self, "scale", 1.0)
    ),
    "A misspelt hook of a learner": lambda: box_learner(
        mine(SACLearner, _critic_los=lambda values, targets, batch: (values, {}))
    ),
    "A learner's hook, defined on the agent": lambda: make_dqn(
        agent=mine(DQN, _loss=lambda self, params, batch, targets: (targets, {}))
    ),
    "A loss hook of a SAC learner that returns one loss per sample, not their mean": lambda: update(
        box_learner(
            mine(
                SACLearner,
                _critic_loss=staticmethod(lambda values, targets, batch=None: (values**2, {})),
            )
        ),
        actions=box,
    ),
    "A loss hook of a TD3 learner that returns only the loss": lambda: update(
        box_learner(mine(TD3Learner, _actor_loss=lambda self, params, critic, batch: 0.0)),
        actions=box,
    ),
    "A `loss_fn` for `apply_loss_fn` that returns more than the loss, without `has_aux=True`": lambda: (
        dqn_learner().critic.apply_loss_fn(loss_fn=lambda params: (jnp.zeros(()), {}))
    ),
    "An `_entropy` that is not summed over the actions": lambda: ppo_with(
        _entropy=lambda self, training, obs: jnp.zeros(2)
    ),
    "Greedy actions with another shape than sampled ones": lambda: ppo_with(
        policy=lambda self, training, obs: jnp.zeros(1, jnp.int32)
    ),
    "Floats as discrete actions": lambda: ppo_with(
        _sample_actions=lambda self, rng, training, obs: jnp.ones(()),
        policy=lambda self, training, obs: jnp.ones(()),
    ),
    "Two losses that report a metric under the same name": lambda: train(
        ppo_with(
            _actor_loss=lambda self, training, obs, actions, log_prob_old, advantage, hyperparams: (
                advantage,
                {"error": advantage, "kl": advantage},
            ),
            _critic_loss=lambda self, training, obs, targets, hyperparams: (
                targets,
                {"error": targets},
            ),
        )
    ),
    "A loss that reports a metric under a name that is taken": lambda: train(
        ppo_with(
            _critic_loss=lambda self, training, obs, targets, hyperparams: (
                targets,
                {"returns": targets},
            )
        )
    ),
    "A hook of 0.2.5 that was removed": lambda: ppo_with(_make_transition=lambda self, *args: args),
    "PPO in a multi-agent environment": lambda: make_ppo(MatchSign(2)),
    "IPPO in a single-agent environment": lambda: IPPO(MatchSign(), None, ippo.AgentConfig()),
    "An attribute set after the constructor": lambda: setattr(agent(), "gamma", 0.9),
    "`eval` before `train`": lambda: make_ppo().eval(key()),
    "The learner of an agent that was not trained": lambda: make_dqn().learner,
    "`eval` with no episodes": lambda: agent().eval(key(), 0),
    "Text for a flag of `train`, `resume` or `sweep`": lambda: train(progress="no"),
    "Text for a flag of an agent": lambda: PPO(MatchSign(), None, agent().config, "no"),
    '`select` with `"best"` instead of an index': lambda: agent().select(
        (stacked(runner()), {}), "best"
    ),
    "Text for a random key, or for its seed": lambda: train(rng="0"),
    "A seed of more than 32 bits": lambda: train(rng=2**32),
    "A float for the random key of a learner's `sample_actions`": lambda: (
        dqn_learner().sample_actions(jnp.zeros(2), seed=3.0)
    ),
    "No random key for a fresh run": lambda: train(rng=None),
    "Several random keys for `train`": lambda: train(rng=keys(4)),
    "Several raw random keys for `train`": lambda: train(rng=jax.random.key_data(keys(3))),
    "Several random keys for `eval`": lambda: trained().eval(keys(4)),
    "A single callback instead of a list": lambda: train(callbacks=StopAfter(60)),
    "The class of a callback": lambda: train(callbacks=[StopAfter]),
    "Callbacks inside `jax.jit`": lambda: jax.jit(
        lambda rng: train(rng=rng, callbacks=[StopAfter(60)])
    )(key()),
    "A mesh inside `jit`": lambda: jax.jit(lambda rng: train(rng=rng, mesh=object()))(key()),
    "`load_policy` of a file that is not there": lambda folder: load_policy(
        folder / "policy.safetensors"
    ),
    "`load_policy` of another kind of file": lambda folder: write_and_load(folder / "policy.pkl"),
    "A single logger instead of a list": lambda: train(loggers=ConsoleLogger()),
    "The class of a logger": lambda: train(loggers=[ConsoleLogger]),
    "The whole result of `train`, passed to it as a runner": lambda: train(runner=(runner(), {})),
    "The runner of an agent of another family": lambda: train(runner=runner_of(make_dqn())),
    "The runners of a sweep, given to `train`": lambda: train(runner=stacked(runner())),
    "The runner of an agent with another `batch_size`": lambda: train(
        runner=runner_of(make_ppo(batch_size=8))
    ),
    "The runner of an agent in another environment": lambda: train(
        runner=runner_of(make_ppo(KnownValues()))
    ),
    "The runner of an environment with the same observations, but other states": lambda: train(
        make_ppo(BestAction()), runner=runner_of(make_ppo(WithMore()))
    ),
    "The runner of an agent of another family, given to `evaluate`": lambda: agent().evaluate(
        runner_of(make_dqn())
    ),
    "A number for the hyperparameters of `start`": lambda: agent().start(key(), 3),
    "A runner whose arrays `advance` has used up": lambda: train(runner=used_up("obs")),
    "Evaluating the runner passed to `advance`, not the one that it returned": lambda: (
        agent().evaluate(used_up("update_step"))
    ),
    "`summarize` of a dict of metrics": lambda: agent().summarize(
        {"returns": np.zeros((2, 3)), "lengths": np.zeros((2, 3))}
    ),
    "`summarize` of the name of a metric": lambda: agent().summarize("returns"),
    "`summarize` of lists of different lengths, of strings, or of `None`": lambda: (
        agent().summarize([[1.0, 2.0], [3.0]])
    ),
    "A batch of observations for `policy`": lambda: agent().policy(
        runner().actor_training, jnp.zeros((5, 2))
    ),
    "A batch of one observation for `policy`": lambda: trained().policy(np.zeros((1, 2))),
    "A batch with floats as discrete actions for a learner": lambda: update(
        dqn_learner(), actions=np.zeros(4, np.float32)
    ),
    "A batch whose observations are wider than the learner was made for": lambda: update(
        dqn_learner(), observations=wide, next_observations=wide
    ),
    "An observation of the wrong shape for `policy` of an agent with a learner": lambda: (
        make_dqn().policy(dqn_learner(), jnp.zeros(3))
    ),
    "A list of numbers for the observation of an agent with a learner": lambda: make_dqn().policy(
        dqn_learner(), [0.0, 1.0]
    ),
    "A list of numbers for `q` of a learner": lambda: dqn_learner().q([0.0, 1.0]),
    "An observation of the wrong shape for `policy`": lambda: agent().policy(
        runner().actor_training, jnp.zeros(3)
    ),
    "`advance` without a runner": lambda: agent().advance(None, 3),
    "A float for the number of updates of `advance`": lambda: agent().advance(runner(), 2.5),
    "A negative number of updates for `advance`": lambda: agent().advance(runner(), -1),
    "A policy exported to a file with another ending": lambda: trained().export_policy(
        "policy.onnx"
    ),
}
