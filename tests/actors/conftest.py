"""What holds for the tests of `actors`."""

from hypothesis import settings

settings.register_profile("shared_machine", deadline=None)  # how long one example takes says nothing there
settings.load_profile("shared_machine")
