"""Which agent, environment and preset the words of a command mean, told without importing JAX."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxagents.cli.mistakes import MistakeError, check_agent, check_environment, check_preset
from jaxagents.presets.settings import PRESETS

_HELP = """\
usage: {form}

{summary}

  AGENT  one of those that 'jaxagents list agents' shows
  ENV    an environment of gymnax or of a suite ('jaxagents list envs'), or module:Class of your own
  NAME   tuned settings ('jaxagents list presets')

'jaxagents {command} AGENT --help' lists the options of an agent."""
SUMMARIES = {
    "train": "Trains an agent, and keeps everything in a folder of its own.",
    "sweep": "Trains several seeds of an agent, with every combination of the hyperparameters given.",
}


class Choice(NamedTuple):
    """The agent, the environment and the preset that were chosen, and the words that are left."""

    agent: str
    environment: str
    preset: str | None
    words: list[str]


def form_of(command: str) -> str:
    """The form that a command has."""
    return (
        f"jaxagents {command} AGENT ENV [options], or jaxagents {command} --preset NAME [options]"
    )


def choose(command: str, words: Sequence[str]) -> Choice:
    """Reads which agent, environment and preset are meant, and checks their names.

    Args:
        command: The command.
        words: The words after it.

    Returns:
        The choice.

    Raises:
        MistakeError: A name is unknown, or missing.
    """
    words = list(words)
    names = []
    while words and not words[0].startswith("-") and len(names) < 2:
        names.append(words.pop(0))
    preset = _taken(words, "--preset")
    if _taken(words, "--preset") is not None:
        raise MistakeError("--preset can be given once.")
    if names:
        check_agent(names[0])
    if preset is not None:
        check_preset(preset)
        settings = PRESETS[preset]
        if names and names[0] != settings.agent:
            raise MistakeError(
                f"Preset '{preset}' is of the agent {settings.agent}, not {names[0]}."
            )
        names += [settings.agent, settings.env][len(names) :]
    if not names:
        if {"-h", "--help"} & set(words):
            print(_HELP.format(form=form_of(command), summary=SUMMARIES[command], command=command))
            raise SystemExit(0)
        raise MistakeError(f"An agent and an environment are missing: {form_of(command)}.")
    if len(names) > 1:
        check_environment(names[1])
    return Choice(names[0], "".join(names[1:]), preset, words)


def _taken(words: list[str], option: str) -> str | None:
    """Takes an option with its value out of words."""
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            del words[place]
            return word.split("=", 1)[1]
        if word == option:
            if place + 1 == len(words):
                raise MistakeError(f"{option} needs a name; 'jaxagents list presets' shows them.")
            value = words[place + 1]
            del words[place : place + 2]
            return value
    return None
