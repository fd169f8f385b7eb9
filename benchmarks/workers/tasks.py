"""The settings of PPO in each environment, shared by all libraries.

Workers in every virtual environment import this module, so it only needs the standard library.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """An environment and the settings of PPO in it.

    Attributes:
        environment: Its name.
        rollout_length: Steps of each environment per update.
        n_epochs: Epochs per update.
        n_minibatches: Minibatches per epoch.
        hidden_layers: Sizes of the hidden layers of actor and critic, with tanh; images are flattened.
        learning_rate: Constant learning rate of Adam.
        gamma: Discount factor.
        gae_lambda: Lambda of generalized advantage estimation.
        clip: Clip range of the probability ratio.
        entropy_coefficient: Entropy coefficient.
        value_coefficient: Weight of the value loss.
        max_gradient_norm: Gradients are clipped to this norm.
        n_learning_envs: Number of environments for learning curves.
        n_learning_steps: Environment steps of learning curves.
    """

    environment: str
    rollout_length: int = 128
    n_epochs: int = 4
    n_minibatches: int = 4
    hidden_layers: tuple[int, ...] = (64, 64)
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_coefficient: float = 0.01
    value_coefficient: float = 0.5
    max_gradient_norm: float = 0.5
    n_learning_envs: int = 64
    n_learning_steps: int = 500_000

    def minibatch_size(self, n_envs: int) -> int:
        """Samples in a minibatch."""
        return self.rollout_length * n_envs // self.n_minibatches


CARTPOLE = Task(environment="CartPole-v1", n_learning_steps=1_500_000)
BREAKOUT = Task(environment="Breakout-MinAtar", n_learning_steps=1_000_000)
PENDULUM = Task(
    environment="Pendulum-v1",
    n_epochs=10,
    n_minibatches=16,
    learning_rate=1e-3,
    gamma=0.9,
    entropy_coefficient=0.0,
)

TASKS = {task.environment: task for task in (CARTPOLE, BREAKOUT, PENDULUM)}
