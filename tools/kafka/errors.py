"""What can be wrong with a broker, for the person who asked for one."""

__all__ = ["BrokerUnavailable"]


class BrokerUnavailable(RuntimeError):
    """A broker cannot be had here; the message says what is missing."""
