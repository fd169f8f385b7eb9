"""The command line as `python -m jaxagents`."""

from jaxagents.cli import main

if __name__ == "__main__":
    main()
