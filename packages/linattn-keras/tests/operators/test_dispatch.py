"""What computes: the native package where it is installed and allowed, else keras.ops."""

import sys

import keras
import numpy as np
import pytest

import linattn_keras
from linattn_keras import _dispatch, ops, portable

NATIVE = _dispatch.NATIVE[keras.backend.backend()]


@pytest.fixture
def not_installed(monkeypatch):
    monkeypatch.setattr(_dispatch, "_modules", {})
    monkeypatch.setattr(_dispatch, "find_spec", lambda name: None)


@pytest.fixture
def disabled():
    linattn_keras.config.disable_native()
    yield
    linattn_keras.config.enable_native()


def test_the_native_package_computes_where_it_is_installed():
    for native in (None, True):
        assert _dispatch.implementation(native) is sys.modules[NATIVE]
    assert _dispatch.implementation(False) is portable


def test_keras_computes_where_no_native_package_is_installed(not_installed):
    assert _dispatch.implementation(None) is portable
    with pytest.raises(ImportError, match=f"needs {NATIVE.replace('_', '-')}, which is not inst"):
        _dispatch.implementation(True)


def test_a_backend_without_a_native_package_is_named(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "other")
    assert _dispatch.implementation(None) is portable
    with pytest.raises(ImportError, match="no package is native to the Keras backend 'other'"):
        _dispatch.implementation(True)


def test_a_native_package_that_does_not_import_is_not_passed_over(monkeypatch):
    monkeypatch.setattr(_dispatch, "_modules", {})
    monkeypatch.setitem(sys.modules, NATIVE, None)
    monkeypatch.setattr(_dispatch, "find_spec", lambda name: object())
    with pytest.raises(ImportError):
        _dispatch.implementation(None)


def test_the_switch_decides_what_none_means_and_nothing_else(disabled):
    assert not linattn_keras.config.is_native_enabled()
    assert _dispatch.implementation(None) is portable
    assert _dispatch.implementation(True) is sys.modules[NATIVE]
    linattn_keras.config.enable_native()
    assert linattn_keras.config.is_native_enabled()
    assert _dispatch.implementation(None) is sys.modules[NATIVE]


def test_a_layer_that_must_be_native_and_can_not_is_refused_when_it_is_built(not_installed):
    layer = linattn_keras.LinearAttention(1, 2, native=True)
    with pytest.raises(ImportError, match="native=True needs"):
        layer.build((None, None, 3))


def test_a_recorder_of_sizes_gets_keras_ops():
    assert _dispatch.implementation(None, sizes_are_traced=True) is portable
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.trace"):
        _dispatch.implementation(True, sizes_are_traced=True)


@pytest.mark.parametrize("native", ["yes", 1, 0])
def test_native_is_true_false_or_none(native):
    x = np.ones((1, 3, 2, 4), "float32")
    with pytest.raises(ValueError, match="native must be True, False or None, got"):
        ops.linear_attention(x, x, x, native=native)
    layer_error = "invalid value for argument `native`"
    with pytest.raises(ValueError, match=layer_error):
        linattn_keras.LinearAttention(1, 2, native=native)


@pytest.mark.parametrize("native", [True, False])
def test_operators_take_arrays_variables_and_tensors(native):
    array = np.random.default_rng(0).normal(size=(1, 5, 2, 3)).astype("float32")
    expected, _ = ops.linear_attention(*[keras.ops.convert_to_tensor(array)] * 3, native=native)
    got, _ = ops.linear_attention(
        array, keras.Variable(array), keras.ops.convert_to_tensor(array), native=native
    )
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (got, expected)))
