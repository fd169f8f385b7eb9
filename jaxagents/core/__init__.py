"""The abstract bases of the agents, and what plugs in around them."""
