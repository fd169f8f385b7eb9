"""The number of GPU kernels per update does not grow, as far as a machine without a GPU can tell.

The estimate uses the CUDA program before XLA optimises it, which differs little between versions of JAX.
XLA fuses elementwise operations into the kernel that reads them, but not products, reductions, and
values that a loop carries to its next iteration.
"""

from unittest import mock

import gymnax
import jax
import jax.numpy as jnp
import pytest

from jaxagents import PPO, ppo

UNFUSED = {
    "stablehlo." + name
    for name in (
        *("convolution", "custom_call", "dot_general", "dynamic_update_slice", "reduce"),
        *("reduce_window", "rng_bit_generator", "scatter", "sort"),
    )
}
OF_BLOCKS = {"stablehlo.case", "stablehlo.while"}
MOST = {  # in each loop, by the turns of the loops around it and its own
    "CartPole-v1": {(): 8, (128,): 15, (4,): 9, (8,): 5, (5,): 8, (5, 4): 57},
    "Pendulum-v1": {(): 8, (128,): 15, (4,): 9, (8,): 5, (5,): 8, (5, 4): 64},
}


def kernels(lowered):
    """The kernels per iteration of each loop, by the trip counts of the loop and those around it."""
    parts = [x.operation for x in lowered.compiler_ir("stablehlo").body.operations]
    functions = {
        x.attributes["sym_name"].value: x.regions[0].blocks[0]
        for x in parts
        if x.name == "func.func"
    }
    found = {}

    def called(operation):
        return functions[operation.attributes["callee"].value]

    def origin(value):
        """The operation that produces a value; `None` for an argument."""
        if not hasattr(value.owner, "attributes"):
            return None
        if value.owner.name != "func.call":
            return value.owner
        body = called(value.owner)
        *_, returned = body.operations
        inner = returned.operands[list(value.owner.results).index(value)]
        if not hasattr(inner.owner, "attributes"):
            return origin(value.owner.operands[list(body.arguments).index(inner)])
        return origin(inner)

    def number(value):
        """A constant."""
        attribute = origin(value).attributes["value"]
        return int(str(attribute).partition("<")[2].partition(">")[0])

    def count(block, path):
        found.setdefault(path, 0)
        for operation in (x.operation for x in block.operations):
            if operation.name == "func.call":
                count(called(operation), path)
            elif operation.name == "stablehlo.while":
                count_loop(operation, path)
            elif operation.name == "stablehlo.case":
                count_case(operation, path)
            else:
                found[path] += operation.name in UNFUSED

    def count_loop(loop, path):
        condition, body = (region.blocks[0] for region in loop.regions)
        turns = [x for x in condition.operations if x.operation.name == "stablehlo.constant"]
        path = (*path, number(turns[0].results[0]) if turns else 1)
        count(body, path)
        *_, returned = body.operations
        made = {*map(origin, returned.operands)} - {None}
        found[path] += sum(x.name not in UNFUSED | OF_BLOCKS for x in made)

    def count_case(case, path):
        source = origin(case.operands[0])
        if source is not None and source.name == "stablehlo.constant":  # of the platform
            count(case.regions[number(case.operands[0])].blocks[0], path)
            return
        before = found[path]
        totals = []
        for region in case.regions:
            found[path] = before
            count(region.blocks[0], path)
            totals.append(found[path])
        found[path] = 1 + max(totals)

    count(functions["main"], ())
    return found


def for_cuda(function, *shapes):
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        return jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",))


def test_counts_what_xla_does_not_fuse():
    def turn(carry, _):
        x, y = carry
        return (jnp.tanh(x @ x) + 1.0, y), jax.lax.cond(y > 0, jnp.sum, jnp.max, 2.0 * x)

    def program(x, y):
        return jax.lax.scan(turn, (x, y), length=7)

    of_turn = len(["product", "x", "condition", "its sum", "row of outputs", "number of the turn"])
    lowered = for_cuda(program, jnp.zeros((3, 3)), jnp.zeros(()))
    assert kernels(lowered) == {(): 0, (7,): of_turn}


@pytest.mark.parametrize("environment", MOST)
def test_an_update_starts_no_more_kernels_than_it_did(environment):
    config = ppo.AgentConfig(
        batch_size=64, rollout_length=128, minibatch_size=16, actor_epochs=5, critic_epochs=5
    )
    program = PPO(*gymnax.make(environment), config).program
    runner = jax.eval_shape(program.start, jax.random.key(0), ppo.HyperParameters())
    found = kernels(for_cuda(program._update, runner))
    assert found.keys() == MOST[environment].keys()
    assert {loop: n for loop, n in found.items() if n > MOST[environment][loop]} == {}
