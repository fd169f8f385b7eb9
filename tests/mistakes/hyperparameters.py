"""Mistakes in hyperparameters."""

import jax
import jax.numpy as jnp
import numpy as np
from probes import MatchSign

from jaxagents import C51, DQNLearner, LinearSchedule, c51, dqn, ppo, sac
from jaxagents.ppo import OptimizerParams
from mistakes.entries import Theme
from mistakes.things import agent, hyperparams, key, make_ppo

mistake = Theme("Hyperparameters")


def train(hyperparams, agent_=None):
    (agent_ or agent()).train(key(), hyperparams, progress=False)


@mistake(TypeError, r"HyperParameters has no field 'gama'\. Did you mean 'gamma'\?")
def misspelt_hyperparameter():
    """A misspelt hyperparameter."""
    hyperparams(gama=0.9)


@mistake(ValueError, r"gamma must lie in \[0, 1\], got 99")
def discount_in_percent():
    """A discount above 1."""
    train(hyperparams(gamma=99))


@mistake(ValueError, r"ent_coeff must lie in \[0, inf\), got -0\.01")
def negative_coefficient():
    """A negative coefficient."""
    train(hyperparams(ent_coeff=-0.01))


@mistake(ValueError, r"ent_coeff must lie in \[0, inf\), got inf")
def infinite_coefficient():
    """An infinite coefficient."""
    train(hyperparams(ent_coeff=float("inf")))


@mistake(ValueError, r"ent_coeff must lie in \[0, inf\), got nan")
def coefficient_that_is_no_number():
    """NaN for a coefficient."""
    train(hyperparams(ent_coeff=float("nan")))


@mistake(ValueError, r"actor_optimizer_params\.learning_rate must lie in \[0, inf\), got inf")
def infinite_learning_rate():
    """An infinite learning rate."""
    train(hyperparams(actor_optimizer_params=OptimizerParams(learning_rate=np.inf)))


@mistake(ValueError, r"critic_optimizer_params\.learning_rate must lie in \[0, inf\), got -0\.001")
def negative_learning_rate():
    """A negative learning rate."""
    train(hyperparams(critic_optimizer_params=OptimizerParams(learning_rate=-1e-3)))


@mistake(ValueError, r"critic_optimizer_params\.grad_clip must lie in \[0, inf\], got -1")
def negative_clip():
    """A negative limit of gradients; `inf` is none."""
    train(hyperparams(critic_optimizer_params=OptimizerParams(grad_clip=-1.0)))


@mistake(ValueError, r"critic_learning_rate must lie in \[0, inf\), got inf")
def infinite_learning_rate_of_a_learner():
    """An infinite learning rate of a learner."""
    DQNLearner.create(0, jnp.zeros(2), 0, n_actions=2, critic_learning_rate=np.inf)


@mistake(ValueError, r"v_min must lie in \(-inf, inf\), got -inf")
def infinite_support():
    """An infinite range of returns for C51."""
    c51.HyperParameters(v_min=-np.inf).check_ranges()


@mistake(ValueError, r"v_max must be above v_min.*got v_max=-1\.0")
def support_upside_down():
    """C51 with `v_max` below `v_min`."""
    config = c51.AgentConfig(buffer_size=64, learning_starts=8, features=(4,))
    train(c51.HyperParameters(v_min=1.0, v_max=-1.0), C51(MatchSign(), None, config))


@mistake(ValueError, r"gamma must be a number, got '0\.9'")
def text_for_a_number():
    """Text for a number."""
    train(hyperparams(gamma="0.9"))


@mistake(ValueError, r"gamma must be a number, got True")
def boolean_for_a_number():
    """A boolean for a number."""
    train(hyperparams(gamma=True))


@mistake(ValueError, r"gamma is an array of shape \(2,\), .* agent\.sweep or jax\.vmap")
def several_values_at_once():
    """An array of values for `train`, outside of `vmap`."""
    train(hyperparams(gamma=jnp.array([0.9, 0.99])))


@mistake(ValueError, r"actor_optimizer_params\.learning_rate is an array of shape \(3,\)")
def several_learning_rates_at_once():
    """Several learning rates for `train`, outside of `vmap`."""
    params = OptimizerParams(learning_rate=np.array([1e-4, 3e-4, 1e-3]))
    train(hyperparams(actor_optimizer_params=params))


@mistake(ValueError, r"critic_learning_rate is an array of shape \(2,\), .*jax\.vmap")
def several_values_for_a_learner():
    """An array of values for a single learner."""
    rates = np.array([1e-4, 1e-3])
    DQNLearner.create(0, jnp.zeros(2), 0, n_actions=2, critic_learning_rate=rates)


@mistake(TypeError, r"actor_optimizer_params must be an OptimizerParams, got a dict: .*\(\*\*")
def optimizer_parameters_as_a_dict():
    """Parameters of the optimizer as a dict."""
    train(hyperparams(actor_optimizer_params={"learning_rate": 3e-4}))


@mistake(TypeError, r"critic_optimizer_params must be an OptimizerParams, got 0\.0003")
def optimizer_parameters_as_a_number():
    """A learning rate in place of the parameters of the optimizer."""
    train(hyperparams(critic_optimizer_params=3e-4))


@mistake(TypeError, r"PPO takes a jaxagents\.ppo\.HyperParameters, got a jaxagents\.dqn\.Hyp")
def hyperparameters_of_another_agent():
    """The hyperparameters of another agent."""
    train(dqn.HyperParameters())


@mistake(
    TypeError, r"PPO takes a jaxagents\.ppo\.HyperParameters, got a dict.*HyperParameters\(\*\*fi"
)
def hyperparameters_as_a_dict():
    """Hyperparameters as a dict."""
    train({"gamma": 0.9})


@mistake(TypeError, r"PPO takes .*HyperParameters, got the class .*: pass .*HyperParameters\(\)")
def hyperparameters_as_a_class():
    """The class of the hyperparameters, not some made of it."""
    train(ppo.HyperParameters)


@mistake(
    TypeError, r"PPO takes a jaxagents\.ppo\.HyperParameters, got a jaxagents\.ppo\.AgentConfig"
)
def configuration_for_hyperparameters():
    """The configuration given to `train`."""
    train(ppo.AgentConfig())


@mistake(ValueError, r"leaves of hyperparams must share one leading axis of sets, got shapes")
def sets_of_different_lengths():
    """A sweep with three discounts and two coefficients."""
    sets = hyperparams(gamma=jnp.array([0.9, 0.95, 0.99]), ent_coeff=jnp.array([0.0, 0.01]))
    agent().sweep(jax.random.split(key(), 2), sets, progress=False)


@mistake(ValueError, r"no sets of hyperparameters .* shape \(0,\)")
def no_sets():
    """A sweep over no sets of hyperparameters."""
    agent().sweep(jax.random.split(key(), 2), hyperparams(gamma=jnp.zeros(0)), progress=False)


@mistake(ValueError, r"There are no seeds: .*jax\.random\.split\(key, 4\)")
def no_seeds():
    """A sweep over no seeds."""
    agent().sweep(jax.random.split(key(), 2)[:0], hyperparams(), progress=False)


@mistake(ValueError, r"rngs must be keys with one leading axis of seeds, got shape \(\).*split")
def one_seed():
    """A single key for a sweep."""
    agent().sweep(key(), hyperparams(), progress=False)


@mistake(ValueError, r"gamma must lie in \[0, 1\], got")
def one_bad_value_in_a_sweep():
    """A sweep with one value out of range."""
    agent().sweep(jax.random.split(key(), 2), hyperparams(gamma=jnp.array([0.5, 1.5])))


@mistake(ValueError, r"initial_temperature must lie in \[1e-08, inf\), got 0")
def cold_start():
    """SAC with an initial temperature of 0."""
    sac.HyperParameters(initial_temperature=0.0).check_ranges()


@mistake(ValueError, r"gamma is an array of shape \(1,\)")
def array_of_one():
    """An array of one number where a number is meant."""
    make_ppo().train(key(), hyperparams(gamma=np.array([0.9])), progress=False)


@mistake(ValueError, r"gamma must be a number, or an array .*got \[0\.5, 0\.9\]: give jnp\.array")
def list_of_values():
    """A list of values for a sweep, instead of an array."""
    agent().sweep(jax.random.split(key(), 2), hyperparams(gamma=[0.5, 0.9]), progress=False)


@mistake(TypeError, r"ent_coeff must be a number, a schedule .*got <class .*LinearSchedule")
def class_of_schedules():
    """The class of a schedule."""
    make_ppo().train(key(), hyperparams(ent_coeff=LinearSchedule), progress=False)


@mistake(TypeError, r"ent_coeff is a function that is not written in JAX.*jnp\.where")
def schedule_in_python():
    """A schedule that is a function with `float` or `if` on the update step."""
    make_ppo().train(key(), hyperparams(ent_coeff=lambda step: float(step)), progress=False)


@mistake(ValueError, r"ent_coeff\.final must lie in \[0, inf\), got -0\.5")
def schedule_that_leaves_the_range():
    """A schedule that ends out of range."""
    falling = LinearSchedule(0.1, -0.5, n_steps=10)
    make_ppo().train(key(), hyperparams(ent_coeff=falling), progress=False)
