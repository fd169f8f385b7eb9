"""The settings of PPO in each environment, the same for every library.

Workers of libraries that need old packages import it too: it needs only the standard library.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """An environment and the settings of PPO in it.

    Attributes:
        environment: Its name.
        rollout_length: Steps of each environment in an update.
        n_epochs: Passes over the samples of an update.
        n_minibatches: Minibatches of a pass.
        hidden_layers: Widths of the hidden layers, with tanh, in the actor and in the critic;
            images are flattened.
        learning_rate: Step size of Adam, which is constant.
        gamma: Discount.
        gae_lambda: Weight of the trace in advantages.
        clip: Clipping of the probability ratio.
        entropy_coefficient: Weight of the entropy.
        value_coefficient: Weight of the critic's loss.
        max_gradient_norm: Where gradients are clipped.
        n_learning_envs: Number of environments of the trainings whose returns are shown.
        n_learning_steps: Their length in environment steps.
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
