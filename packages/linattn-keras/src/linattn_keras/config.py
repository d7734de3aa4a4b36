"""The global switch between the native packages and the portable implementation."""

_native_enabled = True


def enable_native() -> None:
    """Lets every operator and layer with native=None use a native package that is installed."""
    global _native_enabled
    _native_enabled = True


def disable_native() -> None:
    """Makes every operator and layer with native=None compute in keras.ops alone."""
    global _native_enabled
    _native_enabled = False


def is_native_enabled() -> bool:
    """Whether native=None may use a native package."""
    return _native_enabled
