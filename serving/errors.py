"""What can go wrong with a model. The class says whether another try is worth it.

Every constructor passes all its arguments to `super().__init__`, so that an instance survives pickling
(Ray turns anything else into an UnserializableException).
"""


class ServingError(Exception):
    """Root of what a backend or an encoder raises."""


class RetryableServingError(ServingError):
    """The same request may succeed later; wait `after_s` seconds first."""

    def __init__(self, message: str, after_s: float = 1.0) -> None:
        super().__init__(message, after_s)
        self.message = message
        self.after_s = after_s

    def __str__(self) -> str:
        return self.message


class FinalServingError(ServingError):
    """The same request will fail again."""


class PromptTooLongError(FinalServingError):
    """The prompt does not fit the model's context even without demonstrations."""


class ReplicaStartError(FinalServingError):
    """The replica could not start; the message names the model and the remedy."""


class UnknownModelError(FinalServingError):
    """No model of this name or path; the message lists the known names."""
