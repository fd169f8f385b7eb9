"""Mistakes with agents and their hooks."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
from probes import BestAction, KnownValues, MatchSign

from jaxagents import (
    DQN,
    IPPO,
    PPO,
    DQNLearner,
    PPOBase,
    SACLearner,
    TD3Learner,
    ippo,
    load_policy,
)
from jaxagents.callbacks import StopAfter
from jaxagents.loggers import ConsoleLogger
from mistakes.entries import Theme
from mistakes.things import (
    agent,
    arrays,
    box_learner,
    dqn_learner,
    hyperparams,
    key,
    make_dqn,
    make_ppo,
    runner,
    runner_of,
)

mistake = Theme("Agents and hooks")


@mistake(
    TypeError, r"NoPolicy has no policy: give the hooks _sample_actions, _log_prob, _entropy, po"
)
def no_policy():
    """A subclass of a base without a policy."""

    class NoPolicy(PPOBase):
        pass

    make_ppo(agent=NoPolicy)


@mistake(TypeError, r"has no policy: give the hooks _log_prob, _entropy, policy, or _distribution")
def half_a_policy():
    """A subclass of a base with one of the four hooks of a policy."""

    class Half(PPOBase):
        def _sample_actions(self, rng, training, obs):
            return jnp.int32(0)

    make_ppo(agent=Half)


@mistake(
    TypeError,
    r"Raw\._distribution must return a distribution, such as .*Categorical\(logits\).*shape \(2,\)",
)
def logits_for_a_distribution():
    """A `_distribution` that returns the output of the network."""

    class Raw(PPOBase):
        def _distribution(self, training, params, obs):
            return training.apply_fn(params, obs)

    make_ppo(agent=Raw)


class Keyed:
    """A distribution of another library, whose key has a name."""

    log_prob = entropy = mode = lambda *_: jnp.float32(0.0)

    def sample(self, *, seed):
        return jnp.int32(0)


class Unregistered(Keyed):
    """A distribution of which JAX knows nothing."""

    def sample(self, key):
        return jnp.int32(0)


@mistake(TypeError, r"Keyed\.sample takes no key by position: .*sample\(seed=key\)")
def distribution_of_another_library():
    """A distribution whose `sample` takes the key by name alone, as those of distrax do."""

    class Foreign(PPOBase):
        def _distribution(self, training, params, obs):
            return Keyed()

    make_ppo(agent=Foreign)


@mistake(TypeError, r"Unregistered is no pytree.*flax\.struct\.dataclass")
def distribution_that_is_no_pytree():
    """A distribution that is an ordinary object."""

    class Ordinary(PPOBase):
        def _distribution(self, training, params, obs):
            return Unregistered()

    make_ppo(agent=Ordinary)


@mistake(TypeError, r"Limited\._kl_treshold .* Did you mean _kl_threshold\?")
def misspelt_hook():
    """A misspelt hook, which would never be called."""

    class Limited(PPO):
        def _kl_treshold(self, hyperparams):
            return 0.1

    make_ppo(agent=Limited)


@mistake(
    TypeError, r"Mixed\._entropy must be _entropy\(self, training, obs\), got _entropy\(self, obs"
)
def arguments_in_another_order():
    """A hook that takes its arguments in another order."""

    class Mixed(PPO):
        def _entropy(self, obs, training):
            return jnp.zeros(())

    make_ppo(agent=Mixed)


@mistake(TypeError, r"Unmade\.__init__ must call super\(\)\.__init__\(env, env_params, config\)")
def constructor_that_calls_no_other():
    """A constructor that does not call that of its base."""

    class Unmade(PPO):
        def __init__(self, env, env_params, config):
            self.scale = 1.0

    make_ppo(agent=Unmade)


@mistake(TypeError, r"Explorer\._exlpore .* Did you mean _explore\?")
def misspelt_hook_of_an_off_policy_agent():
    """A misspelt hook of an off-policy agent."""

    class Explorer(DQN):
        def _exlpore(self, key, learner, obs, n_steps):
            return jnp.zeros(len(obs), jnp.int32)

    make_dqn(agent=Explorer)


@mistake(TypeError, r"Wide\._q_taget .* Did you mean _q_target\?")
def misspelt_hook_of_a_learner():
    """A misspelt hook of a learner."""

    class Wide(DQNLearner):
        def _q_taget(self, batch):
            return batch["rewards"]

    Wide.create(0, jnp.zeros(2), 0, n_actions=2)


@mistake(TypeError, r"Mistaken\._loss would never be called: _loss is a hook of the learner")
def hook_of_the_learner_on_the_agent():
    """A hook of the learner, given to the agent around it."""

    class Mistaken(DQN):
        def _loss(self, params, batch, targets):
            return targets, {}

    make_dqn(agent=Mistaken)


@mistake(
    ValueError,
    r"Apart\._critic_loss must return one loss for all .*, got losses of shape \(2, 32\)",
)
def losses_of_each_sample_for_a_learner():
    """A loss hook of a SAC learner that returns the losses of the samples, not their mean."""

    class Apart(SACLearner):
        @staticmethod
        def _critic_loss(values, targets, batch=None):
            return jnp.square(values - targets[None]), {}

    box_learner(Apart).update(arrays(actions=np.zeros((32, 1), np.float32)))


@mistake(TypeError, r"Bare\._actor_loss must return a tuple of a loss and a dict .*, got no tuple")
def loss_of_a_learner_alone():
    """A loss hook of a TD3 learner that returns the loss alone."""

    class Bare(TD3Learner):
        def _actor_loss(self, params, critic, batch):
            return super()._actor_loss(params, critic, batch)[0]

    box_learner(Bare).update(arrays(actions=np.zeros((32, 1), np.float32)))


@mistake(TypeError, r"loss_fn must return a loss and nothing else, got a tuple of 2")
def loss_with_more_than_it_says():
    """A `loss_fn` for `apply_loss_fn` that returns more than the loss, without `has_aux=True`."""
    critic = dqn_learner().critic
    jax.eval_shape(lambda: critic.apply_loss_fn(loss_fn=lambda params: (jnp.zeros(()), {})))


@mistake(ValueError, r"_log_prob must have shape \(\), got shape \(3,\)")
def several_log_probabilities():
    """A `_log_prob` with several numbers for one action."""

    class Several(PPO):
        def _log_prob(self, training, params, obs, actions):
            return jnp.zeros(3)

    make_ppo(agent=Several)


@mistake(ValueError, r"_entropy must have shape \(\), got shape \(2,\)")
def entropies_of_each_action():
    """An `_entropy` that is not summed over the actions."""

    class Unsummed(PPO):
        def _entropy(self, training, obs):
            return jnp.zeros(2)

    make_ppo(agent=Unsummed)


@mistake(ValueError, r"the action is shape \(\) .* from _sample_actions but shape \(1,\) .* policy")
def greedy_action_of_another_shape():
    """A greedy action shaped otherwise than those that are drawn."""

    class Other(PPO):
        def policy(self, training, obs):
            return jnp.zeros(1, jnp.int32)

    make_ppo(agent=Other)


@mistake(TypeError, r"Floating: actions of MatchSign are discrete.*whole numbers.*got .*float32")
def float_actions():
    """Floats as discrete actions."""

    class Floating(PPO):
        def _sample_actions(self, rng, training, obs):
            return jnp.ones(())

        def policy(self, training, obs):
            return jnp.ones(())

    make_ppo(agent=Floating)


@mistake(ValueError, r"_actor_loss and _critic_loss both report \['error'\]: rename one")
def one_name_for_two_numbers():
    """Two losses that report something under one name."""

    class Reporting(PPO):
        def _actor_loss(self, training, obs, actions, log_prob_old, advantage, hyperparams):
            return advantage, {"error": advantage}

        def _critic_loss(self, training, obs, targets, hyperparams):
            return targets, {"error": targets}

    make_ppo(agent=Reporting).train(key(), hyperparams(), progress=False)


@mistake(ValueError, r"reports \['returns'\], which names another metric: rename it")
def name_of_another_metric():
    """A loss that reports something under the name of another metric."""

    class Reporting(PPO):
        def _critic_loss(self, training, obs, targets, hyperparams):
            return targets, {"returns": targets}

    make_ppo(agent=Reporting).train(key(), hyperparams(), progress=False)


@mistake(TypeError, r"Former\._make_transition .* 0\.2\.5\. Its place takes _actor_loss_in.*Migrat")
def hook_that_is_gone():
    """A hook of 0.2.5 that is gone."""

    class Former(PPO):
        def _make_transition(self, *args):
            return args

    make_ppo(agent=Former)


@mistake(ValueError, r"PPO trains one actor, but MatchSign has 2\. Use IPPO")
def several_actors_for_one():
    """PPO in an environment of several actors."""
    make_ppo(MatchSign(2))


@mistake(ValueError, r"IPPO needs an environment of several actors.* Use PPO for one actor")
def one_actor_for_several():
    """IPPO in an environment of one actor."""
    IPPO(MatchSign(), None, ippo.AgentConfig())


@mistake(AttributeError, r"PPO is frozen: 'gamma' cannot be set.*Make a new agent instead")
def attribute_set_later():
    """An attribute set after the constructor."""
    agent().gamma = 0.9


@mistake(RuntimeError, r"has not been trained: call train or restore first")
def evaluated_before_trained():
    """`eval` before `train`."""
    make_ppo().eval(key())


@mistake(RuntimeError, r"has not been trained: call train or restore first")
def learner_before_trained():
    """The learner of an agent that was not trained."""
    make_dqn().learner  # noqa: B018


@mistake(ValueError, r"n_evals must be a positive integer, got 0")
def evaluated_in_no_episodes():
    """`eval` with no episodes."""
    agent().eval(key(), 0)


@mistake(TypeError, r"deterministic must be True or False, got 'no'")
def text_for_greedy_actions():
    """Text for a flag of `eval`, which would count as true: `deterministic="no"`."""
    make_ppo().eval(key(), deterministic="no")


@mistake(TypeError, r"progress must be True or False, got 'no'")
def text_for_progress():
    """Text for a flag of `train`, `resume` or `sweep`: `progress="no"`."""
    agent().train(key(), hyperparams(), progress="no")


@mistake(TypeError, r"eval_during_training must be True or False, got 'no'")
def text_for_evaluations():
    """Text for a flag of an agent: `eval_during_training="no"`."""
    PPO(MatchSign(), None, make_ppo().config, "no")


@mistake(IndexError, r"axes of lengths \(3,\): give one position along each, got \('best',\)")
def text_for_a_position():
    """`select` of the training `"best"`, rather than of a position."""
    stack = jax.tree.map(lambda x: jnp.stack([x] * 3), runner())
    agent().select((stack, {}), "best")


@mistake(TypeError, r"Expected a random key such as jax\.random\.key\(0\), got '0'")
def text_for_a_key():
    """Text for a random key, or for its seed."""
    agent().train("0", hyperparams(), progress=False)


@mistake(ValueError, r"seed must be an integer of 32 bits, such as 0 to 4294967295, got 4294967296")
def large_seed():
    """A seed of more than 32 bits."""
    agent().train(2**32, hyperparams(), progress=False)


@mistake(
    TypeError, r"Expected a random key such as .*, got a value of shape \(\) and dtype float32\."
)
def float_to_draw_actions_by():
    """A float for the random key of a learner's `sample_actions`."""
    dqn_learner().sample_actions(jnp.zeros(2), seed=3.0)


@mistake(TypeError, r"Expected a random key such as jax\.random\.key\(0\), got None")
def no_key():
    """No random key for a fresh training."""
    agent().train(None, hyperparams(), progress=False)


@mistake(
    ValueError, r"train takes one random key, got keys of shape \(4,\).*agent\.sweep.*jax\.vmap"
)
def batch_of_keys():
    """Several random keys for `train`."""
    agent().train(jax.random.split(key(), 4), hyperparams(), progress=False)


@mistake(ValueError, r"train takes one random key, got keys of shape \(3,\)")
def batch_of_raw_keys():
    """Several raw random keys for `train`."""
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    agent().train(keys, hyperparams(), progress=False)


@mistake(ValueError, r"eval takes one random key, got keys of shape \(4,\)")
def batch_of_keys_for_an_evaluation():
    """Several random keys for `eval`."""
    trained = make_ppo()
    trained.collect_training(runner(), {})
    trained.eval(jax.random.split(key(), 4))


@mistake(
    TypeError, r"callbacks must be a list of callbacks, got StopAfter\(seconds=60\) alone: put"
)
def single_callback():
    """A single callback instead of a list."""
    agent().train(key(), hyperparams(), progress=False, callbacks=StopAfter(60))


@mistake(TypeError, r"A callback must be a .*Callback, or a function.*got <class")
def class_of_callbacks():
    """The class of a callback."""
    agent().train(key(), hyperparams(), progress=False, callbacks=[StopAfter])


@mistake(ValueError, r"Inside of jit or vmap, train takes no callbacks: call it plainly")
def callbacks_in_jit():
    """Callbacks inside of `jax.jit`."""
    train = functools.partial(agent().train, callbacks=[StopAfter(60)])
    jax.jit(train)(key(), hyperparams())


@mistake(FileNotFoundError, r"There is no file .*policy\.safetensors")
def policy_that_is_not_there(folder):
    """`load_policy` of a file that is not there."""
    load_policy(folder / "policy.safetensors")


@mistake(ValueError, r"is no file of safetensors")
def policy_of_something_else(folder):
    """`load_policy` of another kind of file."""
    (folder / "policy.pkl").write_bytes(pickle.dumps({}))
    load_policy(folder / "policy.pkl")


@mistake(TypeError, r"loggers must be a list of loggers, got a single ConsoleLogger: put it in br")
def single_logger():
    """A single logger instead of a list."""
    agent().train(key(), hyperparams(), progress=False, loggers=ConsoleLogger())


@mistake(TypeError, r"loggers must have a method log\(step, metrics\), got <class")
def class_of_loggers():
    """The class of a logger."""
    agent().train(key(), hyperparams(), progress=False, loggers=[ConsoleLogger])


@mistake(TypeError, r"PPO on MatchSign takes a runner .* got tuple.*runner, metrics = ")
def whole_result_as_a_runner():
    """All that `train` returned, given to it as a runner."""
    agent().train(None, None, (runner(), {}), progress=False)


@mistake(TypeError, r"PPO on MatchSign takes a runner .* got OffPolicyRunner")
def runner_of_another_family():
    """The runner of an agent of another family."""
    agent().train(None, None, runner_of(make_dqn()), progress=False)


@mistake(ValueError, r"stack of 3 trainings: select one with")
def stack_of_runners():
    """The runners of a sweep, given to `train`."""
    stack = jax.tree.map(lambda x: jnp.stack([x] * 3), runner())
    agent().train(None, None, stack, progress=False)


@mistake(
    ValueError,
    r"This runner does not fit PPO on MatchSign: its .* shape \(8,\).*\(4,\).* batch_s",
)
def runner_of_another_batch_size():
    """The runner of an agent with another `batch_size`."""
    other = runner_of(make_ppo(batch_size=8))
    agent().train(None, None, other, progress=False)


@mistake(ValueError, r"This runner does not fit PPO on MatchSign: its .*shape \(6, 4\).*\(2, 4\)")
def runner_of_another_environment():
    """The runner of an agent in another environment."""
    other = runner_of(make_ppo(KnownValues()))
    agent().train(None, None, other, progress=False)


@mistake(
    ValueError,
    r"This runner does not fit PPO on MatchSign: its .* shape \(8,\).*\(4,\).* batch_s",
)
def runner_of_another_batch_size_to_advance():
    """The runner of an agent with another `batch_size`, given to `advance`."""
    other = jax.tree.map(jnp.copy, runner_of(make_ppo(batch_size=8)))
    agent().advance(other, 1)


@mistake(TypeError, r"PPO on MatchSign takes a runner .* got OffPolicyRunner")
def runner_of_another_family_to_evaluate():
    """The runner of an agent of another family, given to `evaluate`."""
    agent().evaluate(runner_of(make_dqn()))


@mistake(TypeError, r"PPO takes a jaxagents.ppo.HyperParameters, got 3")
def number_as_hyperparameters_to_start():
    """A number in the place of the hyperparameters of `start`."""
    agent().start(key(), 3)


@mistake(
    ValueError, r"runner's arrays were used up by advance.*jax\.tree\.map\(jnp\.copy, runner\)"
)
def runner_that_is_used_up():
    """A runner whose arrays `advance` has used up."""
    used_up = jax.tree.map(jnp.copy, runner())
    used_up.obs.delete()
    agent().train(None, None, used_up, progress=False)


@mistake(ValueError, r"runner's arrays were used up by advance")
def used_up_runner_to_evaluate():
    """A runner that `advance` was given, evaluated instead of the one that it returned."""
    used_up = jax.tree.map(jnp.copy, runner())
    used_up.update_step.delete()
    agent().evaluate(used_up)


@mistake(
    TypeError,
    r"summarize takes one metric, .* metrics\['returns'\], got a dict of \['lengths'",
)
def all_metrics_at_once():
    """`summarize` of a dict of metrics."""
    agent().summarize({"returns": np.zeros((2, 3)), "lengths": np.zeros((2, 3))})


@mistake(TypeError, r"summarize takes one metric, such as metrics\['returns'\], got 'returns'")
def name_of_a_metric():
    """`summarize` of the name of a metric."""
    agent().summarize("returns")


@mistake(TypeError, r"summarize takes an array of numbers, .* got \[\[1\.0, 2\.0\], \[3\.0\]\]")
def lists_of_several_lengths():
    """`summarize` of lists of several lengths, of texts, or of `None`."""
    agent().summarize([[1.0, 2.0], [3.0]])


@mistake(ValueError, r"policy takes one observation, of shape \(2,\), got .* \(5, 2\).*jax\.vmap")
def batch_of_observations():
    """A batch of observations for `policy`."""
    agent().policy(runner().actor_training, jnp.zeros((5, 2)))


@mistake(ValueError, r"policy takes one observation, of shape \(2,\), got .* \(5, 2\).*jax\.vmap")
def batch_of_observations_to_act_on():
    """A batch of observations for `act`."""
    agent().act(runner().actor_training, (), np.zeros((5, 2)))


@mistake(ValueError, r"Inside of jit or vmap, train takes no mesh")
def mesh_inside_of_jit():
    """A mesh inside of `jit`."""
    jax.eval_shape(lambda k: agent().train(k, hyperparams(), mesh=object()), key())


@mistake(ValueError, r"does not fit PPO on BestAction: its envstate")
def runner_with_other_states():
    """The runner of an environment whose observations are alike, but not its states."""

    class WithMore(BestAction):
        def reset_env(self, key, params):
            obs, state = super().reset_env(key, params)
            return obs, {"inner": state}

        def step_env(self, key, state, action, params):
            obs, inner, *rest = super().step_env(key, state["inner"], action, params)
            return obs, {"inner": inner}, *rest

    make_ppo(BestAction()).train(None, None, runner_of(make_ppo(WithMore())), progress=False)


@mistake(TypeError, r"'actions' must be integers, got an array of type float32")
def float_actions_in_a_batch():
    """A batch with floats as discrete actions for a learner."""
    batch = {name: np.zeros(4, np.float32) for name in ("actions", "rewards", "masks")}
    batch |= dict.fromkeys(("observations", "next_observations"), np.zeros((4, 2), np.float32))
    dqn_learner().update(batch)


@mistake(
    ValueError, r"DiscreteCritic was given inputs of shape \(4, 3\), which its parameters do not"
)
def wider_observations_in_a_batch():
    """A batch whose observations are wider than those that a learner was made for."""
    batch = {name: np.zeros(4, np.float32) for name in ("rewards", "masks")}
    batch |= dict.fromkeys(("observations", "next_observations"), np.zeros((4, 3), np.float32))
    dqn_learner().update({**batch, "actions": np.zeros(4, np.int32)})


@mistake(
    ValueError, r"policy takes one observation, of shape \(2,\), or a batch .* got shape \(3,\)"
)
def wider_observation_for_a_learner():
    """An observation of another shape for the `policy` of an agent around a learner."""
    make_dqn().policy(dqn_learner(), jnp.zeros(3))


@mistake(
    ValueError,
    r"policy takes one observation, or a batch of .* array of shape \(2,\), got a list: give np\.",
)
def list_of_numbers_for_an_observation():
    """A list of numbers for the observation of an agent around a learner."""
    make_dqn().policy(dqn_learner(), [0.0, 1.0])


@mistake(ValueError, r"policy takes one observation, as an array of shape \(2,\), got a list")
def list_of_numbers_for_policy():
    """A list of numbers for `policy`."""
    agent().policy(runner().actor_training, [0.0, 1.0])


@mistake(ValueError, r"policy takes one observation, or a batch of .* shape \(2,\), got a list")
def list_of_numbers_to_act_on_with_a_memory():
    """A list of numbers for `act` of an agent around a learner that remembers."""
    remembers = make_dqn(memory="gru", learning_starts=32, sequence_length=4)
    acting = runner_of(remembers).learner
    remembers.act(acting, remembers.initial_carry(acting), [0.0, 1.0])


@mistake(TypeError, r"DiscreteCritic was given a list of numbers: give an array, np\.array")
def list_of_numbers_to_value():
    """A list of numbers for `q` of a learner."""
    dqn_learner().q([0.0, 1.0])


@mistake(ValueError, r"policy takes one observation, of shape \(2,\), got shape \(3,\)")
def observation_of_another_shape():
    """An observation of another shape for `policy`."""
    agent().policy(runner().actor_training, jnp.zeros(3))


@mistake(TypeError, r"A runner is needed, .* got a NoneType")
def nothing_to_advance():
    """`advance` without a runner."""
    agent().advance(None, 3)


@mistake(TypeError, r"A runner is needed: train returns a runner and metrics.* got a tuple")
def result_to_advance():
    """All that `train` returned, given to `advance` as a runner."""
    agent().advance((runner(), {}), 3)


@mistake(TypeError, r"n_updates must be an integer, got 2\.5")
def half_an_update():
    """A float for the number of updates of `advance`."""
    agent().advance(runner(), 2.5)


@mistake(ValueError, r"n_updates must be an integer of 0 or more, got -1")
def updates_backwards():
    """A negative number of updates for `advance`."""
    agent().advance(runner(), -1)


@mistake(
    ValueError, r"export_policy writes a file of safetensors.*not one of \.onnx: let its name end"
)
def policy_for_another_program():
    """A policy exported under the name of another kind of file."""
    agent = make_ppo()
    agent.collect_training(runner_of(agent), {})
    agent.export_policy("policy.onnx")
