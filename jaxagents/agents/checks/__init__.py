"""Checks of what agents are given and what their hooks return, before anything is compiled."""
