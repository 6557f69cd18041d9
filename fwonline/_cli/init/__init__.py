"""Definitions for one's own data, and those that come with the package: ``fwonline init``."""

from fwonline._cli.init.command import Options, definition_for, init
from fwonline._cli.init.examples import write_example
from fwonline._cli.init.sample import is_data

__all__ = ["Options", "definition_for", "init", "is_data", "write_example"]
