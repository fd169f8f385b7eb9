"""Mistakes with environments."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gymnasium_spaces
from probes import Box, Discrete, MatchSign, Target

from jaxagents import BC, IPPO, PPO, Environment, bc, check_env, ippo, ppo
from jaxagents.envs import Step
from mistakes.entries import Theme
from mistakes.things import hyperparams, make_bc, make_dqn, make_ppo, make_sac

mistake = Theme("Environments")
_TWO = Discrete(2)


class Spaces(NamedTuple):
    """A space of several parts."""

    spaces: tuple


class Wrong(MatchSign):
    """An environment whose steps are changed."""

    def step_env(self, key, state, action, params):
        return self.change(*super().step_env(key, state, action, params))


class Still(Environment):
    """An environment in which nothing happens, in a space that is given."""

    def __init__(self, action_space=_TWO, max_steps=None):
        self.action_space = action_space
        self.max_steps = max_steps

    def reset(self, key):
        return jnp.zeros(2), jnp.zeros(2)

    def step(self, key, state, action):
        return Step(state, state, 0.0, False, False, {})


@mistake(TypeError, r"MatchSign is a class: pass an environment, such as MatchSign\(\)")
def class_of_environments():
    """A class instead of an environment."""
    make_ppo(MatchSign)


@mistake(
    ValueError, r"gymnax has no environment 'CartPole'\. Did you mean 'CartPole-v1'\?.*'brax:ant'"
)
def unknown_name():
    """A name that gymnax does not have."""
    make_ppo("CartPole")


@mistake(ValueError, r"There is no suite 'atari'.* names of brax, .* begin with the suite")
def unknown_suite():
    """A name of a suite that there is not."""
    make_ppo("atari:Pong")


@mistake(TypeError, r"object is not an environment: it lacks reset_env and step_env\. Needed are")
def something_else():
    """Something that is no environment."""
    make_ppo(object())


@mistake(ValueError, r"step_env must return five values .*, got 4")
def four_values():
    """A step of four values, as of old Gym."""

    class Four(Wrong):
        def change(self, obs, state, reward, done, info):
            return obs, state, reward, done

    make_ppo(Four())


@mistake(ValueError, r"step_env: info must be a dict, got None")
def no_info():
    """A step whose info is `None`."""

    class NoInfo(Wrong):
        def change(self, obs, state, reward, done, info):
            return obs, state, reward, done, None

    make_ppo(NoInfo())


@mistake(
    ValueError, r"observation is shape \(2,\) .* from reset_env but shape \(3,\) .* from step_env"
)
def observations_of_two_shapes():
    """Observations of another shape after a step."""

    class Growing(Wrong):
        def change(self, obs, *rest):
            return jnp.zeros(3), *rest

    make_ppo(Growing())


@mistake(
    ValueError, r"observation is .*float32 from reset_env but .*int32 from step_env\. .*asarray"
)
def observations_of_two_types():
    """Observations of another type after a step."""

    class Rounding(Wrong):
        def change(self, obs, *rest):
            return obs.astype(jnp.int32), *rest

    make_ppo(Rounding())


@mistake(ValueError, r"the state of reset_env and step_env differ in structure")
def states_of_two_structures():
    """A state of another structure after a step."""

    class Other(Wrong):
        def change(self, obs, state, *rest):
            return obs, {"state": state}, *rest

    make_ppo(Other())


@mistake(ValueError, r"step_env: reward must have shape \(\), got shape \(2,\)")
def several_rewards():
    """Several rewards for one actor."""

    class Several(Wrong):
        def change(self, obs, state, reward, *rest):
            return obs, state, jnp.zeros(2), *rest

    make_ppo(Several())


@mistake(ValueError, r"step_env: reward must be a real number, got .*complex64")
def complex_rewards():
    """Complex rewards."""

    class Complex(Wrong):
        def change(self, obs, state, reward, *rest):
            return obs, state, reward + 1j, *rest

    make_ppo(Complex())


@mistake(ValueError, r"step_env: terminated must be a boolean, got .*float32.*done > 0\.5")
def float_done():
    """A float that says whether an episode is over."""

    class Floating(Wrong):
        def change(self, obs, state, reward, done, info):
            return obs, state, reward, jnp.float32(0.0), info

    make_ppo(Floating())


@mistake(ValueError, r'step_env: info\["truncated"\] must be a boolean, got .*float32')
def float_truncation():
    """A float that says whether an episode was cut."""

    class Floating(Wrong):
        def change(self, obs, state, reward, done, info):
            return obs, state, reward, done, {"truncated": jnp.float32(0.0)}

    make_ppo(Floating())


@mistake(ValueError, r"final_info and summed_info name \['kl'\], which updates report already")
def info_under_the_name_of_a_report():
    """An entry of the info that is named as something that updates report."""

    class Named(Wrong):
        def change(self, obs, state, reward, done, info):
            return obs, state, reward, done, {"kl": reward}

    agent = make_ppo(Named(), final_info=("kl",))
    agent.train(jax.random.key(0), hyperparams())


@mistake(ValueError, r"step_env: terminated must have shape \(\), got shape \(2,\)")
def done_of_each_actor():
    """An end of the episode for each actor."""

    class Several(Wrong):
        def change(self, obs, state, reward, done, info):
            return obs, state, reward, jnp.zeros(2, bool), info

    IPPO(Several(2), None, ippo.AgentConfig())


@mistake(ValueError, r"MatchSign\.n_actors must be a positive integer, got 0")
def no_actors():
    """An environment of no actors."""
    IPPO(MatchSign(0), None, ippo.AgentConfig())


@mistake(ValueError, r"MatchSign\.n_actors must be a positive integer, got 0")
def no_actors_for_one():
    """An environment of no actors for an agent of one."""
    make_ppo(MatchSign(0))


@mistake(ValueError, r"observation_space has shape \(3,\) .* but reset_env returns shape \(2,\)")
def space_of_other_observations():
    """A space that the observations are not of."""

    class Declared(MatchSign):
        def observation_space(self, params):
            return Box(-1.0, 1.0, (3,))

    make_ppo(Declared())


@mistake(TypeError, r"Python\.step_env is not written in JAX: .*float\(\).*interface of Gymnasium")
def number_of_a_traced_array():
    """An environment in NumPy: `float(action)`."""

    class Python(Wrong):
        def change(self, obs, state, reward, *rest):
            return obs, state, float(reward), *rest

    make_ppo(Python())


@mistake(TypeError, r"Python\.step_env is not written in JAX: .*jnp\.where.*interface of Gymnasium")
def branch_on_a_traced_array():
    """An environment with `if` on its state."""

    class Python(Wrong):
        def change(self, obs, state, reward, *rest):
            return obs, state, 1.0 if state.time > 3 else 0.0, *rest

    make_dqn(Python())


@mistake(TypeError, r"Python\.reset_env is not written in JAX")
def numpy_in_a_reset():
    """An environment whose reset calls NumPy."""

    class Python(MatchSign):
        def reset_env(self, key, params):
            obs, state = super().reset_env(key, params)
            return np.asarray(obs), state

    make_ppo(Python())


@mistake(TypeError, r"Python\.step is not written in JAX")
def numpy_in_an_environment_of_the_library():
    """A subclass of `Environment` whose step calls NumPy."""

    class Python(Environment):
        action_space = Discrete(2)

        def reset(self, key):
            return jnp.zeros(2), jnp.zeros(2)

        def step(self, key, state, action):
            return int(action)

    make_ppo(Python())


@mistake(ValueError, r"Tuples\.step must return a jaxagents\.envs\.Step.*, got a tuple")
def tuple_for_a_step():
    """A subclass of `Environment` whose step returns a tuple."""

    class Tuples(Environment):
        action_space = Discrete(2)

        def reset(self, key):
            return jnp.zeros(2), jnp.zeros(2)

        def step(self, key, state, action):
            return state, state, 0.0, False, {}

    make_ppo(Tuples())


@mistake(TypeError, r"Still is an Environment, which holds its own parameters: pass None")
def parameters_of_an_environment():
    """Parameters besides an `Environment`."""

    PPO(Still(), {"gravity": 9.8}, ppo.AgentConfig())


@mistake(
    TypeError, r"Gymnastic\.step must be step\(self, key, state, action\), got step\(action\): "
)
def step_of_an_action_alone():
    """A subclass of `Environment` with the step of Gymnasium."""

    class Gymnastic(Still):
        def step(self, action):
            return jnp.zeros(2), 0.0, False, False, {}

    make_ppo(Gymnastic())


@mistake(TypeError, r"Gymnastic\.reset must be reset\(self, key\), got reset\(\*, seed=None\): ")
def reset_of_gymnasium():
    """A subclass of `Environment` with the reset of Gymnasium."""

    class Gymnastic(Still):
        def reset(self, *, seed=None):
            return jnp.zeros(2), {}

    make_dqn(Gymnastic())


@mistake(
    TypeError,
    r"Turned\.step must be step\(self, key, state, action\), got .* in this order, not by name",
)
def step_with_the_key_last():
    """A `step` whose arguments have another order."""

    class Turned(Still):
        def step(self, state, action, key):
            return super().step(key, state, action)

    make_ppo(Turned())


@mistake(
    TypeError, r"Talking\.step returns 'left' in info\.message, but .*leave it out, or give a num"
)
def text_in_the_info():
    """A text in the info of a compiled environment."""

    class Talking(Still):
        def step(self, key, state, action):
            return super().step(key, state, action)._replace(info={"message": "left"})

    make_ppo(Talking())


@mistake(
    TypeError, r"Talking\.reset_env returns 'left' in obs\.message, but .*leave it out, or give"
)
def text_in_an_observation():
    """A text in an observation of a compiled environment."""

    class Talking(MatchSign):
        def observe(self, state):
            return {"sign": state.sign, "message": "left"}

    make_dqn(Talking())


@mistake(
    ValueError, r"A reset or a step writes to Forgetful\.start\..*keep whatever changes in the st"
)
def state_in_the_environment():
    """An environment whose reset writes to `self`."""

    class Forgetful(Still):
        def reset(self, key):
            self.start = jax.random.normal(key, (2,))
            return self.start, self.start

    make_ppo(Forgetful())


@mistake(
    ValueError, r"A reset or a step writes to Forgetful\.last\..*keep whatever changes in the sta"
)
def last_action_in_the_environment():
    """An environment whose step writes to `self`."""

    class Forgetful(MatchSign):
        def step_env(self, key, state, action, params):
            self.last = action
            return super().step_env(key, state, action, params)

    make_dqn(Forgetful())


@mistake(TypeError, r"Python\.reset is not written in JAX: .*interface of Gymnasium")
def check_of_an_environment_in_numpy():
    """`check_env` of an environment in NumPy."""

    class Python(Still):
        def reset(self, key):
            return np.asarray(jax.random.normal(key, (2,))), jnp.zeros(2)

    check_env(Python())


@mistake(TypeError, r"Still\.action_space is the class Discrete: .*such as Discrete\(4\)")
def class_of_spaces():
    """The class of a space instead of a space."""
    make_ppo(Still(Discrete))


@mistake(TypeError, r"Still\.action_space is 4, which is no space: .*such as Discrete\(4\)")
def number_of_actions():
    """The number of actions instead of their space."""
    make_dqn(Still(4))


@mistake(TypeError, r"Asked\.action_space is a method, .*@property above it, .* = Discrete\(4\)")
def method_for_a_space():
    """A space given by a method of an `Environment`."""

    class Asked(Still):
        def __init__(self):
            """Declares nothing."""

        def action_space(self):
            return Discrete(4)

    make_ppo(Asked())


@mistake(
    TypeError, r"Attribute\.action_space must be a method action_space\(params\) .*got Discrete"
)
def attribute_for_a_method():
    """A space as an attribute beside `reset_env` and `step_env`."""

    class Attribute(MatchSign):
        action_space = Discrete(2)

    make_ppo(Attribute())


@mistake(ValueError, r"Still\.max_steps must be a positive integer, got 0")
def no_steps():
    """Episodes of no steps."""
    make_ppo(Still(max_steps=0))


@mistake(TypeError, r"Still\.max_steps must be an integer, got '30' \(str\)")
def text_for_a_number_of_steps():
    """A text for the length of episodes."""
    make_dqn(Still(max_steps="30"))


@mistake(
    ValueError, r"PPO acts in discrete and box spaces, .* Still\.action_space is MultiBinary\(2\)"
)
def flags_for_actions():
    """PPO in a space of several flags, `MultiBinary`."""
    make_ppo(Still(gymnasium_spaces.MultiBinary(2)))


@mistake(
    ValueError, r"Still\.action_space must hold integers that start at 0, got .*start=1.*: leave"
)
def actions_from_one_on():
    """Discrete actions of a compiled environment that do not start at 0."""
    make_dqn(Still(gymnasium_spaces.Discrete(3, start=1)))


@mistake(
    ValueError,
    r"Rooms\.observation_space must hold integers that start at 0, got .*start=2.*: leave",
)
def observations_from_two_on():
    """Discrete observations of a compiled environment that do not start at 0."""

    class Rooms(Still):
        observation_space = gymnasium_spaces.Discrete(4, start=2)

    make_ppo(Rooms())


class Blind(Still):
    """An environment in which there is nothing to see."""

    def reset(self, key):
        return {}, jnp.zeros(2)

    def step(self, key, state, action):
        return super().step(key, state, action)._replace(obs={})


@mistake(ValueError, r"Blind\.reset returns an observation with nothing in it, .* shapes \{\}: ")
def nothing_observed():
    """Observations without arrays."""
    make_ppo(Blind())


@mistake(
    ValueError, r"Bare\.reset_env returns an observation with .* shapes \(0,\): leave .*one zero"
)
def empty_observations():
    """Observations that are empty arrays."""

    class Bare(MatchSign):
        def observe(self, state):
            return jnp.zeros(0)

    make_dqn(Bare())


@mistake(ValueError, r"Still\.action_space must hold vectors, .* nvec has one axis.*: flatten it")
def matrix_of_actions():
    """Several discrete actions along two axes."""
    make_ppo(Still(gymnasium_spaces.MultiDiscrete([[2, 3]])))


@mistake(ValueError, r"Still\.action_space must have low below high in every component, got Box")
def box_without_a_width():
    """A box of actions with a component of a single value."""
    PPO(Still(Box(0.0, 0.0, (2,))), None, ppo.AgentConfig())


@mistake(ValueError, r"Still\.action_space must have low below high in every component, got Box")
def box_upside_down():
    """SAC in a box of actions whose bounds are the wrong way round."""
    make_sac(Still(Box(1.0, -1.0, (2,))))


@mistake(ValueError, r"PPO needs Bare\.action_space; without it, subclass PPOBase")
def no_space_of_actions():
    """An environment without a space of actions."""

    class Bare(MatchSign):
        action_space = None

    make_ppo(Bare())


@mistake(ValueError, r"DQN acts in discrete spaces, but Many\.action_space is ")
def space_of_several_parts():
    """DQN in a space of actions with several parts."""

    class Many(MatchSign):
        def action_space(self, params):
            return Spaces((Discrete(2), Discrete(3)))

    make_dqn(Many())


@mistake(
    ValueError, r"SAC needs a box of actions with finite bounds, but Open\.action_space is Box"
)
def open_box_for_a_learner():
    """SAC in a box without bounds."""

    class Open(Target):
        def action_space(self, params):
            return Box(-jnp.inf, jnp.inf, (2,))

    make_sac(Open())


@mistake(ValueError, r"squash_actions needs finite bounds, but Open\.action_space is Box")
def open_box_squashed():
    """`squash_actions` in a box without bounds."""

    class Open(Target):
        def action_space(self, params):
            return Box(-jnp.inf, jnp.inf, (2,))

    PPO(Open(), None, ppo.AgentConfig(squash_actions=True))


@mistake(ValueError, r"Empty\.action_space is empty")
def empty_box():
    """A box of actions without components."""

    class Empty(Target):
        def action_space(self, params):
            return Box(-1.0, 1.0, (0,))

    PPO(Empty(), None, ppo.AgentConfig())


@mistake(ValueError, r"DQN acts in discrete spaces, but Target\.action_space is Box")
def box_for_a_discrete_agent():
    """DQN in an environment of continuous actions."""
    make_dqn(Target())


@mistake(TypeError, r"BC takes a jaxagents\.data\.Dataset, got a dict: .*Dataset\(")
def dict_for_a_dataset():
    """A dict for the dataset of an offline agent."""
    make_bc({"observations": np.zeros((4, 2)), "actions": np.zeros(4, int)})


@mistake(
    ValueError, r"Noisy\.reset_env or .* draws random numbers with numpy\.random.*constants.*jax\.r"
)
def constant_noise():
    """An environment that draws its noise with `numpy.random`."""

    class Noisy(MatchSign):
        def reset_env(self, key, params):
            obs, state = super().reset_env(key, params)
            return obs + np.random.normal(), state  # noqa: NPY002

    make_ppo(Noisy())


@mistake(TypeError, r"PPO\(\) missing 2 required .*'env_params' and 'config'.*Call PPO\(env")
def environment_alone():
    """An environment without its parameters and a configuration: `PPO("CartPole-v1")`."""
    PPO("CartPole-v1")


@mistake(TypeError, r"missing 1 required keyword-only argument: 'dataset'")
def no_dataset():
    """An offline agent without a dataset."""
    BC(MatchSign(), None, bc.AgentConfig())
