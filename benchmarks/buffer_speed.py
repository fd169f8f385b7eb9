"""Measures replay buffers on the device, beside those of flashbax (`pip install flashbax`).

Run it with the machine left alone: `python benchmarks/buffer_speed.py`.
"""

import argparse
import dataclasses
import gc
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import peers

from jaxagents.data import DeviceBuffer

TRANSITIONS = {
    "Pendulum": {"observations": jnp.zeros(3), "actions": jnp.zeros(1)},
    "10 x 10 x 4 bytes": {
        "observations": jnp.zeros((10, 10, 4), jnp.uint8),
        "actions": jnp.zeros((), jnp.int32),
    },
}
"""What differs between the transitions."""

HEAD = [
    "Transitions",
    "Capacity",
    "Buffer",
    "MB held",
    "Uniform",
    "Memory",
    "Prioritised",
    "Memory",
]


@dataclasses.dataclass
class Contender:
    """A full buffer, and how to use it.

    Attributes:
        state: The buffer.
        transitions: What is added at a time.
        add: Gives the state with transitions added.
        draw: Gives a batch and the numbers of its rows.
        prioritise: Gives the state with other priorities of rows; `None` to draw uniformly.
        n_bytes: Size of the transitions that the buffer holds.
    """

    state: Any
    transitions: Any
    add: Callable[[Any, Any], Any]
    draw: Callable[[Any, jax.Array], tuple[Any, Any]]
    prioritise: Callable[[Any, Any, jax.Array], Any] | None
    n_bytes: int


def main() -> None:
    """Measures everything and prints a page of Markdown."""
    args = parse_args()
    rows = [
        row
        for name in TRANSITIONS
        for capacity in args.capacities
        for row in measured_rows(name, capacity, args)
    ]
    flashbax = f" flashbax {version('flashbax')}." if has_flashbax() else ""
    parts = [
        "# Speed of replay buffers on the device",
        f"Measured by `benchmarks/buffer_speed.py` {peers.machine()}.{flashbax} Medians of "
        f"{args.repeats} runs on the {jax.default_backend()}, in turns.",
        "Thousands of steps a second of a compiled loop, with full buffers. A step adds a transition of "
        f"each of {args.envs} environments and draws {args.batch_size} rows; with priorities, it draws "
        "in proportion to them and then changes those of the rows. Memory is all that the compiled loop "
        "takes, relative to the transitions that the buffer holds:",
        peers.table(HEAD, rows),
    ]
    peers.write("\n\n".join(parts), args.markdown)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacities", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--envs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a run, about")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write to this file")
    return parser.parse_args()


def has_flashbax() -> bool:
    """Whether flashbax is installed."""
    return importlib.util.find_spec("flashbax") is not None


def transition(name: str) -> dict[str, jax.Array]:
    """One transition."""
    different = TRANSITIONS[name]
    return different | {
        "rewards": jnp.zeros(()),
        "next_observations": different["observations"],
        "masks": jnp.ones(()),
        "ends": jnp.zeros((), bool),
    }


def measured_rows(name: str, capacity: int, args: argparse.Namespace) -> Iterator[list[str]]:
    """What was measured with transitions of one kind, a row for each buffer."""
    uniform = measured(name, capacity, False, args)
    prioritised = measured(name, capacity, True, args)
    for label, (speed, memory, n_bytes) in uniform.items():
        other_speed, other_memory, _ = prioritised[label]
        numbers = [f"{n_bytes / 1e6:,.1f}", f"{speed / 1e3:.1f}", f"{memory:.2f}"]
        numbers += [f"{other_speed / 1e3:.1f}", f"{other_memory:.2f}"]
        yield [name, f"{capacity:,}", label, *numbers]


def measured(
    name: str, capacity: int, prioritised: bool, args: argparse.Namespace
) -> dict[str, tuple[float, float, int]]:
    """Steps a second, relative memory and bytes held of each buffer, in turns."""
    contenders = {"jaxagents": ours(transition(name), capacity, prioritised, args)}
    if has_flashbax():
        for kind in ("item", "flat"):
            contenders[f"flashbax {kind}"] = theirs(
                kind, transition(name), capacity, prioritised, args
            )
    programs, carries, lengths, speeds = {}, {}, {}, {label: [] for label in contenders}
    for label, contender in contenders.items():
        carries[label] = first_carry(contender)
        programs[label] = compiled_loop(contender, carries[label])
        contender.state = None  # it is donated
        lengths[label] = 1
        while (seconds := timed(programs[label], carries, label, lengths[label])) < args.seconds:
            lengths[label] *= min(10, max(2, round(args.seconds / seconds)))
    for _ in range(args.repeats):
        for label, n_steps in lengths.items():
            seconds = timed(programs[label], carries, label, n_steps)
            speeds[label].append(n_steps / seconds)
    del carries
    gc.collect()
    return {
        label: (
            statistics.median(speeds[label]),
            n_bytes_of(programs[label]) / contender.n_bytes,
            contender.n_bytes,
        )
        for label, contender in contenders.items()
    }


def timed(program: Any, carries: dict[str, Any], label: str, n_steps: int) -> float:
    """Seconds that steps of a buffer's loop take; its carry goes on."""
    began = time.perf_counter()
    carries[label] = jax.block_until_ready(program(carries[label], jnp.int32(n_steps)))
    return time.perf_counter() - began


def first_carry(contender: Contender) -> Any:
    """What the loop starts from: the buffer, a key, and a batch, which XLA may not leave out then."""
    batch, _ = jax.eval_shape(contender.draw, contender.state, jax.random.key(0))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), batch)
    return contender.state, jax.random.key(0), zeros


def compiled_loop(contender: Contender, carry: Any) -> Any:
    """The loop over steps, from its carry and the number of steps."""

    def step(_: Any, carry: Any) -> Any:
        state, key, _ = carry
        key, draw_key = jax.random.split(key)
        state = contender.add(state, contender.transitions)
        batch, indices = contender.draw(state, draw_key)
        if contender.prioritise is not None:
            state = contender.prioritise(state, indices, jnp.abs(batch["rewards"]) + 0.5)
        return state, key, batch

    def loop(carry: Any, n_steps: jax.Array) -> Any:
        return jax.lax.fori_loop(0, n_steps, step, carry)

    return jax.jit(loop, donate_argnums=0).lower(carry, jnp.int32(1)).compile()


def n_bytes_of(program: Any) -> int:
    """Memory that a compiled program takes: what it is given, gives and needs meanwhile."""
    memory = program.memory_analysis()
    taken = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return taken + memory.temp_size_in_bytes - memory.alias_size_in_bytes


def repeated(one: Any, *sizes: int) -> Any:
    """Copies of a transition along new leading axes."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (*sizes, *x.shape)), one)


def size_of(tree: Any) -> int:
    """Bytes of the arrays of a pytree."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def ours(one: Any, capacity: int, prioritised: bool, args: argparse.Namespace) -> Contender:
    """The buffer of this library."""
    buffer = DeviceBuffer.create(one, capacity, args.envs, prioritised)
    buffer = buffer.replace(size=jnp.int32(capacity))
    if prioritised:
        buffer = buffer.with_priorities(jnp.arange(capacity), jnp.ones(capacity))

    def draw(buffer: DeviceBuffer, key: jax.Array) -> tuple[Any, Any]:
        if not prioritised:
            return buffer.sample(key, args.batch_size), None
        indices, probabilities = buffer.sample_prioritised(key, args.batch_size)
        return buffer.take(indices) | {"probabilities": probabilities}, indices

    return Contender(
        state=buffer,
        transitions=repeated(one, args.envs),
        add=DeviceBuffer.add,
        draw=draw,
        prioritise=DeviceBuffer.with_priorities if prioritised else None,
        n_bytes=size_of(buffer.storage),
    )


def theirs(
    kind: str, one: Any, capacity: int, prioritised: bool, args: argparse.Namespace
) -> Contender:
    """A buffer of flashbax: of transitions ("item"), or of steps that share observations ("flat")."""
    import flashbax

    if kind == "flat":
        one = {key: value for key, value in one.items() if key != "next_observations"}
    make = getattr(flashbax, f"make_{'prioritised_' if prioritised else ''}{kind}_buffer")
    adds = {"add_batch_size": args.envs} if kind == "flat" else {"add_batches": True}
    exponents = {"priority_exponent": 1.0} if prioritised else {}
    buffer = make(capacity, args.batch_size, args.batch_size, **adds, **exponents)
    state = buffer.init(one).replace(is_full=jnp.array(True))
    if prioritised:
        state = with_equal_priorities(state, capacity, 2 if kind == "flat" else 1)

    def draw(state: Any, key: jax.Array) -> tuple[Any, Any]:
        sampled = buffer.sample(state, key)
        batch = sampled.experience
        if kind == "flat":
            batch = batch.first | {"next_observations": batch.second["observations"]}
        if not prioritised:
            return batch, None
        return batch | {"probabilities": sampled.probabilities}, sampled.indices

    return Contender(
        state=state,
        transitions=repeated(one, args.envs),
        add=buffer.add,
        draw=draw,
        prioritise=buffer.set_priorities if prioritised else None,
        n_bytes=size_of(state.experience),
    )


def with_equal_priorities(state: Any, capacity: int, sequence_length: int) -> Any:
    """A state of flashbax's that is as full of priorities as of transitions."""
    from flashbax.buffers import sum_tree

    _, n_times = jax.tree.leaves(state.experience)[0].shape[:2]
    valid = jnp.arange(capacity) % n_times <= n_times - sequence_length
    tree = sum_tree.set_batch_bincount(
        state.sum_tree_state, jnp.arange(capacity), valid.astype(jnp.float32)
    )
    return state.replace(sum_tree_state=tree, running_index=jnp.int32(n_times))


if __name__ == "__main__":
    main()
