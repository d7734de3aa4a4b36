import pytest
from consumers import PREPARE, Copy, prepared


@pytest.fixture(scope="session", params=PREPARE)
def language(request):
    return request.param


@pytest.fixture(scope="session")
def consumer(language, tmp_path_factory):
    """The command that runs the consumer in `language`."""
    return prepared(language, tmp_path_factory.mktemp(language))


@pytest.fixture
def copy(tmp_path):
    """Makes a copy of the fixtures that holds only the given cases."""
    return lambda *cases: Copy(tmp_path / "fixtures", cases)
