"""How a refusal is expected: the class, and the whole text."""

import re

import pytest


def refuses(error_class, message):
    return pytest.raises(error_class, match=f"^{re.escape(message)}$")
