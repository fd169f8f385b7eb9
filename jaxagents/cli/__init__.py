"""Training from a terminal: `jaxagents train ppo CartPole-v1`.

Nothing here imports JAX before a command needs it.
"""

import importlib
import os
import sys
from collections.abc import Sequence

import jaxagents
from jaxagents.cli.mistakes import CommandError, MistakeError, StoppedError
from jaxagents.core.names import check_known

__all__ = ["main"]

_COMMANDS = {
    "train": ("training", "train", "train an agent in an environment, or from data"),
    "resume": (
        "training",
        "resume",
        "continue a run that was stopped, or train it for longer",
    ),
    "sweep": ("training", "sweep", "train several seeds with several hyperparameters"),
    "eval": ("inspection", "evaluate", "play episodes with a trained agent"),
    "plot": ("inspection", "plot", "draw learning curves of one run or of several"),
    "export": ("inspection", "export", "write the policy of a trained agent to one file"),
    "replay": (
        "inspection",
        "replay",
        "repeat updates of a run, and print losses and gradient norms",
    ),
    "verify": ("inspection", "verify", "check whether checkpoints are damaged"),
    "list": ("inspection", "list_names", "list agents, envs or presets"),
}
_OVERVIEW = """\
usage: jaxagents COMMAND ...

Reinforcement-learning agents on JAX.

{commands}

'jaxagents COMMAND --help' has more, 'jaxagents --version' the version. Try:

  jaxagents train --preset ppo-cartpole"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: Arguments of the command line; by default those of the process.

    Raises:
        SystemExit: With status 2 after a mistake, 130 after Ctrl-C, 1 after a failure or a broken pipe.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            _run(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # a reader such as `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(StoppedError.status)
    except CommandError as error:
        print(f"jaxagents: {error}", file=sys.stderr)
        sys.exit(error.status)


def _run(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help", "help"):
        rows = [f"  {name:<8} {summary}" for name, (_, _, summary) in _COMMANDS.items()]
        print(_OVERVIEW.format(commands="\n".join(rows)))
    elif words[0] == "--version":
        print(f"jaxagents {jaxagents.__version__}")
    else:
        check_known("command", words[0], _COMMANDS, error=MistakeError)
        module, function, _ = _COMMANDS[words[0]]
        getattr(importlib.import_module(f"jaxagents.cli.{module}"), function)(words[1:])
