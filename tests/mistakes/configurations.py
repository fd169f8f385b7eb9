"""Mistakes in configurations."""

import jax
import optax
from probes import MatchSign

from jaxagents import PPO, bc, c51, dqn, ppo, reinforce
from mistakes.entries import Theme
from mistakes.things import ON_POLICY, agent, make_dqn

mistake = Theme("Configurations")


@mistake(TypeError, r"AgentConfig has no field 'n_step'\. Did you mean 'n_steps'\? Its fields are")
def misspelt_field():
    """A misspelt field."""
    ppo.AgentConfig(n_step=3)


@mistake(TypeError, r"AgentConfig has no field 'minibatch_size'\. .*Its fields are")
def field_of_another_agent():
    """A field that only other agents have: REINFORCE with `minibatch_size`."""
    reinforce.AgentConfig(minibatch_size=3)


@mistake(TypeError, r"AgentConfig takes keyword arguments only, .*n_steps=200")
def positional_fields():
    """Fields by position: `AgentConfig(200)`."""
    ppo.AgentConfig(200)


@mistake(ValueError, r"AgentConfig\.n_steps must be a positive integer, got 0")
def no_updates():
    """No updates."""
    ppo.AgentConfig(n_steps=0)


@mistake(TypeError, r"AgentConfig\.n_steps must be an integer, got 1000000\.0 \(float\)")
def float_number_of_updates():
    """A float for a count: `n_steps=1e6`."""
    ppo.AgentConfig(n_steps=1e6)


@mistake(TypeError, r"AgentConfig\.n_steps must be an integer, got True")
def boolean_number_of_updates():
    """A boolean for a count."""
    ppo.AgentConfig(n_steps=True)


@mistake(ValueError, r"AgentConfig\.n_steps=300 contradicts n_updates=400\. Give one of them")
def two_numbers_of_updates():
    """Two names of one number that contradict each other."""
    ppo.AgentConfig(n_steps=300, n_updates=400)


@mistake(ValueError, r"n_updates=300 contradicts total_timesteps=4096, which is 2 updates of 2,048")
def two_lengths():
    """Updates and environment steps that contradict each other."""
    ppo.AgentConfig(n_updates=300, total_timesteps=4096)


@mistake(
    TypeError, r"'total_timesteps'\. It learns from a dataset, in n_updates updates of gradient"
)
def timesteps_of_a_dataset():
    """`total_timesteps` for an agent that learns from a dataset."""
    bc.AgentConfig(total_timesteps=1_000_000)


@mistake(TypeError, r"AgentConfig\.batch_size must be an integer, got '16' \(str\)")
def text_for_a_count():
    """Text for a count, as from a command line."""
    ppo.AgentConfig(batch_size="16")


@mistake(ValueError, r"AgentConfig\.batch_size must be a positive integer, got -4")
def negative_batch_size():
    """A negative size."""
    ppo.AgentConfig(batch_size=-4)


@mistake(ValueError, r"eval_frequency must be a positive integer, got 0")
def never_evaluated():
    """`eval_frequency=0` to switch evaluation off, instead of `eval_during_training=False`."""
    ppo.AgentConfig(eval_frequency=0)


@mistake(ValueError, r"n_evals must be a positive integer, got 0")
def no_episodes_of_evaluation():
    """Evaluations without episodes."""
    ppo.AgentConfig(n_evals=0)


@mistake(ValueError, r"max_episode_steps must be a positive integer, got 0")
def no_steps_in_an_episode():
    """Episodes without steps."""
    ppo.AgentConfig(max_episode_steps=0)


@mistake(ValueError, r"minibatch_size must divide batch_size: 10 .* of 4\. Values .*: 1, 2, 5, 10")
def uneven_minibatches():
    """A `minibatch_size` that does not divide `batch_size`."""
    ppo.AgentConfig(batch_size=10, minibatch_size=4)


@mistake(ValueError, r"n_groups must divide batch_size: 16 is not a multiple of 3\. Values")
def uneven_groups():
    """Groups that do not divide `batch_size`."""
    ppo.AgentConfig(n_groups=3)


@mistake(ValueError, r"minibatches_per_epoch must divide the 24 samples of an update .*got 7")
def minibatches_that_do_not_divide_samples():
    """A number of minibatches that does not divide the samples of an update."""
    ppo.AgentConfig(batch_size=8, rollout_length=3, minibatches_per_epoch=7)


@mistake(ValueError, r"n_groups must divide the 3 samples of a minibatch .*got 2")
def groups_that_do_not_divide_samples():
    """Groups that do not divide the samples of a minibatch."""
    ppo.AgentConfig(batch_size=8, minibatch_size=1, rollout_length=3, n_groups=2)


@mistake(ValueError, r"buffer_size must be a multiple of batch_size \(8\), got 1001; 1000 or 1008")
def uneven_buffer():
    """A replay buffer that the environments cannot share."""
    dqn.AgentConfig(buffer_size=1001, learning_starts=8)


@mistake(ValueError, r"learning_starts must not exceed buffer_size \(800\), got 1000")
def learning_starts_after_the_buffer_is_full():
    """A replay buffer smaller than `learning_starts`."""
    dqn.AgentConfig(buffer_size=800, learning_starts=1000)


@mistake(ValueError, r"n_atoms must be 2 or more")
def one_atom():
    """C51 with a single atom."""
    c51.AgentConfig(n_atoms=1)


@mistake(
    TypeError, r"optimizer must be a function that makes an optax optimizer, such as optax\.ad"
)
def optimizer_that_is_made():
    """An optimizer that is made already: `optimizer=optax.adam(1e-3)`."""
    ppo.AgentConfig(optimizer=optax.adam(1e-3))


@mistake(
    TypeError, r"optimizer must take a learning_rate, which is a hyperparameter, as optax\.adam"
)
def optimizer_without_a_rate():
    """An optimizer that would not heed its learning rate: `optimizer=lambda: optax.adam(1e-3)`."""
    ppo.AgentConfig(optimizer=lambda: optax.adam(1e-3))


@mistake(TypeError, r"no field 'features'. It is a field of networks: actor_network=.*features=\.")
def width_in_the_configuration():
    """The layers of PPO's networks in its configuration."""
    ppo.AgentConfig(features=(256, 256))


@mistake(TypeError, r"AgentConfig\.eval_frequency must be an integer, got None")
def none_for_a_number():
    """`None` for a number that is needed."""
    ppo.AgentConfig(eval_frequency=None)


@mistake(TypeError, r"AgentConfig\.n_steps is traced .* Only hyperparameters may be traced")
def traced_field():
    """A static field inside of `jit` or `vmap`."""
    jax.jit(lambda n: ppo.AgentConfig(n_steps=n).n_steps)(3)


@mistake(TypeError, r"PPO takes a jaxagents\.ppo\.AgentConfig, got a jaxagents\.dqn\.AgentConfig")
def configuration_of_another_agent():
    """The configuration of another agent."""
    PPO(MatchSign(), None, dqn.AgentConfig())


@mistake(TypeError, r"PPO takes a jaxagents\.ppo\.AgentConfig, got a .*EnvParams")
def configuration_in_the_place_of_parameters():
    """The configuration and the parameters of the environment in each other's place."""
    import gymnax  # computes something as it is imported

    env, env_params = gymnax.make("CartPole-v1")
    PPO(env, ppo.AgentConfig(), env_params)


@mistake(
    TypeError, r"PPO takes a jaxagents\.ppo\.AgentConfig, got a dict.*AgentConfig\(\*\*fields\)"
)
def configuration_as_a_dict():
    """A dict as a configuration."""
    PPO(MatchSign(), None, ON_POLICY)


@mistake(TypeError, r"PPO takes .*AgentConfig, got the class .*AgentConfig: pass .*AgentConfig\(\)")
def configuration_as_a_class():
    """The class of the configuration, not one made of it."""
    PPO(MatchSign(), None, ppo.AgentConfig)


@mistake(TypeError, r"AgentConfig\.features must be the widths of the layers, got 64")
def one_width():
    """A number for the widths of layers: `features=64`."""
    make_dqn(features=64)


@mistake(ValueError, r"AgentConfig\.features must be a positive integer, got 0")
def width_of_zero():
    """A layer of width 0."""
    make_dqn(features=(8, 0))


@mistake(TypeError, r"Short\.rollout_length = 5 is no field, so that the default would stay 128")
def default_without_a_type():
    """A new default in a class that is no dataclass, or without a type, which would be passed over."""

    class Short(ppo.AgentConfig):
        rollout_length: int = 5

    Short()


@mistake(TypeError, r"Expected a random key such as jax\.random\.key\(0\), got 0\.5")
def float_for_evaluations():
    """A float for `eval_rng`."""
    ppo.AgentConfig(eval_rng=0.5)


@mistake(ValueError, r"keep_checkpoints must be a positive integer, got 0")
def no_checkpoints_kept():
    """`keep_checkpoints=0` to keep all, instead of `None`."""
    ppo.AgentConfig(keep_checkpoints=0)


@mistake(
    ValueError, r"checkpoint_dir must be the path of a folder, such as 'runs/1', or None .* ''"
)
def nameless_folder():
    """An empty path as the folder of checkpoints."""
    ppo.AgentConfig(checkpoint_dir="")


@mistake(ValueError, r"restore_agent=True needs a checkpoint_dir")
def restoring_without_a_folder():
    """`restore_agent=True` without a `checkpoint_dir`."""
    ppo.AgentConfig(restore_agent=True)


@mistake(TypeError, r"restore_agent must be True or False, got 'no'")
def text_for_a_flag():
    """Text for a flag, which would count as true: `restore_agent="no"`."""
    ppo.AgentConfig(checkpoint_dir="runs/1", restore_agent="no")


@mistake(AttributeError, r"PPO is frozen: 'config' cannot be set.*Make a new agent instead")
def configuration_replaced_later():
    """Another configuration for an agent that is made already."""
    agent().config = ppo.AgentConfig()


@mistake(ValueError, r"n_steps must be a positive integer, got -1")
def negative_number_of_updates_to_make():
    """A negative number of updates to make."""
    agent().train(jax.random.key(0), ppo.HyperParameters(), n_steps=-1)
