"""A package of 0.2.5, whose imports fail with the name of what took its place."""

from jaxagents.core.names import former_module

raise former_module(__name__)
