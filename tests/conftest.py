"""What every test runs under."""

from hypothesis import settings

# The deadline measures the machine as much as the code: slow cores must not turn a test red.
# A failure prints the blob that replays it, so a report from CI is enough to work with.
settings.register_profile("coterie", deadline=None, print_blob=True)
settings.load_profile("coterie")
