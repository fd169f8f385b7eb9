"""Adapters for other environment suites, one file per suite."""

from jaxagents.envs.adapters.functional import Functional
from jaxagents.envs.adapters.making import as_environment, make
from jaxagents.envs.adapters.native import Native

__all__ = ["Functional", "Native", "as_environment", "make"]
