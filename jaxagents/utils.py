"""A removed package of 0.2.5. Importing it raises an error that names its replacement."""

from jaxagents.core.names import former_module

raise former_module(__name__)
