"""Whether another try is worth it is said by the class; the message names the object and the remedy."""


class TradewindsError(Exception):
    """Root of what this package raises."""


class Retryable(TradewindsError):  # noqa: N818 - the name is the verdict
    """May succeed later; wait `after_s` seconds first."""

    def __init__(self, message: str, after_s: float = 1.0) -> None:
        super().__init__(message, after_s)
        self.message = message
        self.after_s = after_s

    def __str__(self) -> str:
        return self.message


class Final(TradewindsError):  # noqa: N818 - the name is the verdict
    """Will fail again the same way."""


class SettingsError(Final):
    """A setting, pool file or command line that cannot be run; names the key and the remedy."""


class ClusterError(Final):
    """A part of the cluster could not start or is gone for good."""
