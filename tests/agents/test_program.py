"""The pure functions that a training consists of, and the agent in front of them."""

import jax
import numpy as np
import pytest
import trees
from probes import MatchSign
from registry import AGENTS

from jaxagents.agents.program import Program

KEY = jax.random.key(0)
CASES = [case for case in AGENTS if case.name in ("PPO", "DQN", "BC")]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_agent_runs_its_program(case):
    agent, hyperparams = case.make(MatchSign), case.hyperparams()
    program = agent.program.with_data(agent.data)

    @jax.jit
    def trained(key):
        runner = program.restart(
            program.start(key, hyperparams), case.hyperparams(learning_rate=0.5)
        )
        runner = program.advance(runner, 2)
        return runner, program.evaluate(runner)

    runner = agent.restart(agent.start(KEY, hyperparams), case.hyperparams(learning_rate=0.5))
    runner = agent.advance(runner, np.int32(2))
    trees.assert_close((runner, agent.evaluate(runner)), trained(KEY))


def test_programs_compare_by_what_they_compute(tmp_path):
    case = CASES[0]
    program = case.make(MatchSign).program
    assert isinstance(program, Program)
    assert program == case.make(MatchSign, checkpoint_dir=tmp_path).program
    assert hash(program) == hash(case.make(MatchSign).program)
    assert program != case.make(MatchSign, n_steps=6).program


def test_hooks_may_take_the_steps_of_the_agent():
    class Twice(CASES[0].agent):
        def _training_step(self, runner):
            once = super()._training_step(runner)
            return super()._training_step(self.restart(once, runner.hyperparams))

    case = CASES[0]
    agent = Twice(MatchSign(), None, case.config())
    runner = agent.advance(agent.start(KEY, case.hyperparams()), np.int32(2))
    assert runner.update_step == 4
