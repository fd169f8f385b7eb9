"""The entry of the command line. Nothing here imports JAX before a command needs it."""

import importlib
import os
import sys
from collections.abc import Sequence

import jaxagents
from jaxagents.cli.mistakes import FailureError, MistakeError, StoppedError
from jaxagents.core.nearest import unknown

_COMMANDS = {
    "train": ("training", "train", "train an agent in an environment, or from data"),
    "resume": (
        "training",
        "resume",
        "continue a run that was stopped, or train it for longer",
    ),
    "sweep": ("training", "sweep", "train several seeds with several hyperparameters"),
    "eval": ("looking", "evaluate", "play episodes with a trained agent"),
    "plot": ("looking", "plot", "draw learning curves of one run or of several"),
    "export": ("looking", "export", "write the policy of a trained agent to one file"),
    "replay": ("looking", "replay", "repeat updates of a run, and print losses and gradient norms"),
    "verify": ("looking", "verify", "check whether checkpoints are damaged"),
    "list": ("looking", "list_names", "list agents, envs or presets"),
}
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: Words of the command line; those of the process by default.

    Raises:
        SystemExit: With 2 after a mistake, with 130 after Ctrl-C, with 1 after a failure or where nobody
            reads what is printed any more.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run_to_the_end(words)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except MistakeError as mistake:
        _end(2, mistake)
    except FailureError as failure:
        _end(1, failure)
    except StoppedError as stopped:
        _end(_INTERRUPTED, stopped)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _run_to_the_end(words: list[str]) -> None:
    """Runs a command, and writes all that it printed."""
    try:
        _run(words)
    finally:
        sys.stdout.flush()


def _drop_output() -> None:
    """Has nothing more written to a reader that has seen enough, such as `head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
    elif words[0] == "--version":
        print(f"jaxagents {jaxagents.__version__}")
    elif words[0] in _COMMANDS:
        module, function, _ = _COMMANDS[words[0]]
        getattr(importlib.import_module(f"jaxagents.cli.{module}"), function)(words[1:])
    else:
        raise MistakeError(unknown("command", words[0], _COMMANDS))


def _end(status: int, error: Exception) -> None:
    print(f"jaxagents: {error}", file=sys.stderr)
    sys.exit(status)


def _overview() -> str:
    lines = [f"  {name:<8} {summary}" for name, (_, _, summary) in _COMMANDS.items()]
    return "\n".join(
        [
            "usage: jaxagents COMMAND ...",
            "",
            "Reinforcement-learning agents on JAX.",
            "",
            *lines,
            "",
            "'jaxagents COMMAND --help' has more, 'jaxagents --version' the version. Try:",
            "",
            "  jaxagents train --preset ppo-cartpole",
        ]
    )
