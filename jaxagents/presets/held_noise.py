"""TD3 with noise that lasts, for cars that must swing to climb a mountain."""

import jax
from jaxtyping import Array, Float, Key, PyTree

from jaxagents.td3 import TD3, TD3Learner


class HeldNoiseTD3(TD3):
    """Explores with one draw of noise for each update step, instead of one for each action."""

    def _explore(
        self, key: Key[Array, ""], learner: TD3Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> PyTree:
        return learner.sample_actions(obs, seed=jax.random.fold_in(learner.rng, 1))
