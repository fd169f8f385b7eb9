"""Mistakes with trainings on the host."""

import gymnasium
import numpy as np
from gymnasium import spaces
from loops import Line, Tiny

from jaxagents import SACLearner
from jaxagents.data import ReplayBuffer
from jaxagents.host import (
    OfflineConfig,
    OnlineConfig,
    evaluate,
    example_transition,
    restore_learner,
    train_offline,
    train_online,
)
from jaxagents.loggers import ConsoleLogger
from mistakes.entries import Theme
from mistakes.things import arrays, bc_learner, box_learner, with_one

mistake = Theme("Host loops")

ONLINE = OnlineConfig(n_steps=20, batch_size=4, buffer_size=20, start_steps=5, n_evals=1)
OFFLINE = OfflineConfig(n_updates=2, batch_size=4, updates_per_call=1)


def tiny():
    return Tiny.create(np.zeros(2), 1)


def box_arrays(**others):
    return arrays(actions=np.zeros((32, 1), np.float32), **others)


@mistake(TypeError, r"resume must be True or False, got 'no'")
def text_for_a_flag():
    """Text for a flag of a host loop: `resume="no"`."""
    train_offline(bc_learner(), arrays(), OFFLINE, resume="no")


@mistake(ValueError, r"OnlineConfig\.start_steps must not exceed n_steps \(100\), .* got 5000")
def nothing_but_random_steps():
    """More random steps at the start than steps in all."""
    OnlineConfig(n_steps=100)


@mistake(ValueError, r"OnlineConfig\.seed must be an integer of 0 or more, got -1")
def negative_seed():
    """A negative seed."""
    OnlineConfig(seed=-1)


@mistake(
    TypeError, r"learner must be a learner, got the class SACLearner: make one with SACLearner\.cr"
)
def class_of_learners():
    """The class of a learner."""
    train_online(SACLearner, Line(), ONLINE)


@mistake(TypeError, r"learner must have the methods .*, but int lacks")
def something_else_for_a_learner():
    """Something that is no learner."""
    train_online(3, Line(), ONLINE)


@mistake(TypeError, r"config must be an OnlineConfig, got dict: give OnlineConfig\(\*\*config\)")
def configuration_as_a_dict():
    """A dict as a configuration."""
    train_online(tiny(), Line(), {"n_steps": 5})


@mistake(TypeError, r"config must be an OnlineConfig, got OfflineConfig")
def configuration_of_the_other_loop():
    """The configuration of the other training."""
    train_online(tiny(), Line(), OFFLINE)


@mistake(TypeError, r"loggers must be a list of loggers, got a single ConsoleLogger: put it in br")
def single_logger():
    """A single logger instead of a list."""
    train_online(tiny(), Line(), ONLINE, loggers=ConsoleLogger())


@mistake(TypeError, r"env must be a Gymnasium environment.*got str")
def name_of_an_environment():
    """The name of an environment."""
    train_online(tiny(), "Pendulum-v1", ONLINE)


@mistake(TypeError, r"single Gymnasium environment")
def vector_for_evaluations():
    """A vector of environments for evaluations."""
    train_online(tiny(), Line(), ONLINE, eval_env=gymnasium.vector.SyncVectorEnv([Line]))


@mistake(ValueError, r"Line is not registered with Gymnasium.*n_envs is 4. Pass a vector instead")
def copies_of_an_unregistered_environment():
    """Copies of an environment that Gymnasium knows no way to make more of."""
    train_online(tiny(), Line(), ONLINE.replace(n_envs=4))


class Plain(gymnasium.Wrapper):
    """A wrapper that does not tell Gymnasium how it was made."""


@mistake(
    ValueError, r"CartPole-v1 has wrappers .*Plain wrapper .*n_envs is 4. Pass a vector instead"
)
def copies_behind_a_wrapper_that_is_not_recorded():
    """Copies of an environment in a wrapper that Gymnasium cannot put around more."""
    train_online(tiny(), Plain(gymnasium.make("CartPole-v1")), ONLINE.replace(n_envs=4))


@mistake(ValueError, r"The vector has 2 environments, .* n_envs=4: leave n_envs out")
def vector_of_another_number():
    """A vector of more or fewer environments than the configuration of a host loop has."""
    train_online(tiny(), gymnasium.vector.SyncVectorEnv([Line] * 2), ONLINE.replace(n_envs=4))


@mistake(ValueError, r"finite bounds.*choose them with gymnasium\.wrappers\.TransformAction")
def open_box():
    """A box of actions without bounds."""
    train_online(tiny(), Line(action_space=spaces.Box(-np.inf, np.inf, (1,))), ONLINE)


@mistake(ValueError, r"finite bounds.*leave out ClipAction, which takes them away")
def clipped_actions():
    """`ClipAction` around an environment of a host loop."""
    train_online(tiny(), gymnasium.wrappers.ClipAction(Line()), ONLINE)


@mistake(
    ValueError, r"Tiny gives actions of shape \(1,\) .* the environment takes actions of Discrete"
)
def learner_of_other_actions():
    """A learner of continuous actions in an environment of discrete ones."""
    train_online(tiny(), Line(action_space=spaces.Discrete(2)), ONLINE)


@mistake(ValueError, r"Tiny cannot act on observations of Box")
def learner_of_other_observations():
    """A learner of other observations."""
    train_online(Tiny.create(np.zeros(5), 1), Line(), ONLINE)


@mistake(ValueError, r"eval_env must be another environment than env")
def one_environment_for_both():
    """One environment for training and for evaluation."""
    env = Line()
    train_online(tiny(), env, ONLINE, eval_env=env)


@mistake(ValueError, r"The same Line is there twice, .* `lambda: MyEnv\(\)`")
def one_environment_as_all_of_a_vector():
    """A vector of one and the same environment."""
    line = Line()
    train_online(tiny(), gymnasium.vector.SyncVectorEnv([lambda: line] * 2), ONLINE)


@mistake(TypeError, r"buffer must be a ReplayBuffer, got int")
def size_of_a_buffer():
    """The size of a buffer for a buffer."""
    train_online(tiny(), Line(), ONLINE, buffer=1000)


@mistake(ValueError, r"resume=True needs a checkpoint_dir in the configuration")
def resumed_from_nowhere():
    """`resume=True` without a `checkpoint_dir`."""
    train_online(tiny(), Line(), ONLINE, resume=True)


@mistake(TypeError, r"dataset must be a Dataset, .* got ReplayBuffer: give buffer\.to_dataset\(\)")
def buffer_for_a_dataset():
    """A replay buffer for a dataset."""
    train_offline(tiny(), ReplayBuffer.create(example_transition(Line()), 4), OFFLINE)


@mistake(ValueError, r"The dataset has no rows")
def dataset_without_rows():
    """A dataset without rows."""
    train_offline(tiny(), {"observations": np.zeros((0, 2))}, OFFLINE)


@mistake(ValueError, r"Actions must lie in \[-1, 1\], .* in \[0, 7\]\. Rescale them")
def actions_outside_of_their_bounds():
    """Continuous actions beyond [-1, 1]."""
    train_offline(box_learner(), {**arrays(), "actions": with_one(7)[:, None]}, OFFLINE)


@mistake(TypeError, r"'rewards' must hold real numbers, got an array of type object: cast it")
def rewards_that_are_objects():
    """Rewards of a dataset in an array of objects, as tables of several types give them."""
    train_offline(box_learner(), box_arrays(rewards=np.zeros(32, object)), OFFLINE)


@mistake(ValueError, r"'rewards' .* NaN or infinite in 1 of 32 rows.* row 3")
def rewards_that_are_no_numbers():
    """NaN among the rewards of a dataset."""
    train_offline(box_learner(), box_arrays(rewards=with_one(np.nan)), OFFLINE)


@mistake(
    ValueError, r"normalise_rewards does nothing for BCLearner, which learns from .*: leave it"
)
def rewards_for_a_learner_that_has_none():
    """`normalise_rewards` for a learner that learns from no rewards."""
    train_offline(bc_learner(), box_arrays(), OFFLINE.replace(normalise_rewards=True))


@mistake(ValueError, r"'masks' .* 0 .* 1 .*got 7.* in 1 of 32 rows")
def masks_of_another_meaning():
    """Masks that are neither 0 nor 1."""
    train_offline(box_learner(), box_arrays(masks=with_one(7)), OFFLINE)


@mistake(ValueError, r"n_episodes must be a positive integer, got 0")
def no_episodes():
    """An evaluation of no episodes."""
    evaluate(lambda observation: np.zeros(1), Line(), 0)


@mistake(
    TypeError, r"OnlineConfig has no field 'total_timesteps'.*n_steps counts steps of the environm"
)
def total_timesteps():
    """`total_timesteps` for a training on the host."""
    OnlineConfig(total_timesteps=1_000)


def returning(step=None, reset=None):
    """An environment that returns something else than it should."""

    class Changed(Line):
        def reset(self, **keywords):
            returned = super().reset(**keywords)
            return reset(*returned) if reset else returned

        def step(self, action):
            returned = super().step(action)
            return step(*returned) if step else returned

    return Changed()


@mistake(
    ValueError, r"Changed\.step returns an observation of shape \(3,\), but observation_space is B"
)
def observation_of_another_shape():
    """An environment whose observations are not those of its space."""
    env = returning(lambda obs, *others: (np.zeros(3), *others))
    train_online(tiny(), env, ONLINE, progress=False)


@mistake(
    ValueError, r"Changed\.reset returns an observation of shape None, but observation_space is B"
)
def no_observation():
    """An environment for evaluations whose reset gives no observation."""
    env = returning(reset=lambda obs, info: (None, info))
    train_online(tiny(), Line(), ONLINE, eval_env=env, progress=False)


@mistake(TypeError, r"Changed\.step must return a number as the reward, got None")
def no_reward():
    """An environment whose reward is `None`."""
    env = returning(lambda obs, reward, *others: (obs, None, *others))
    train_online(tiny(), env, ONLINE, progress=False)


@mistake(TypeError, r"Changed\.step must return a number as the reward, got array")
def several_rewards():
    """An environment with several rewards."""
    env = returning(lambda obs, reward, *others: (obs, np.ones(2), *others))
    evaluate(lambda observation: np.zeros(1, np.float32), env, 1)


@mistake(
    TypeError, r"Changed\.step must return a tuple \(observation, reward, .*a tuple of 4.*old Gym"
)
def step_of_the_old_gym():
    """An environment whose step returns four values, as those of the old Gym did."""
    env = returning(lambda obs, reward, over, truncated, info: (obs, reward, over, info))
    train_online(tiny(), env, ONLINE, progress=False)


@mistake(
    TypeError, r"Changed\.reset must return a tuple \(observation, info\), got .*ndarray.*old Gym"
)
def reset_of_the_old_gym():
    """An environment whose reset returns the observation alone, as those of the old Gym did."""
    train_online(tiny(), returning(reset=lambda obs, info: obs), ONLINE, progress=False)


@mistake(TypeError, r"Changed\.step must return a boolean as terminated, got 0\.5")
def float_for_a_flag():
    """An environment with a float that says whether an episode is over."""
    env = returning(lambda obs, reward, over, *others: (obs, reward, 0.5, *others))
    train_online(tiny(), env, ONLINE, progress=False)


@mistake(ValueError, r"checkpoint_dir must be the path of a folder.*got None")
def no_folder():
    """`restore_learner` without a folder."""
    restore_learner(tiny(), None)
