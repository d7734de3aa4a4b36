"""The fixtures as node tests of the ONNX operator LinearAttention (ai.onnx, opset 27).

`python -m linattn_spec.onnx_node_tests DIRECTORY` writes a directory per case that the operator
can express, in the layout that the test runners of ONNX and of its runtimes read:

    DIRECTORY/test_linattn_<id>/model.onnx
    DIRECTORY/test_linattn_<id>/data.json: the tolerance, for those that read it
    DIRECTORY/test_linattn_<id>/test_data_set_0/input_0.pb, ..., output_0.pb, output_1.pb

What can be expressed, and how, is in node_test.py, which needs no onnx; write.py does.
"""

from linattn_spec.onnx_node_tests.node_test import Call, NodeTest, node_test, obstacle

__all__ = ["Call", "NodeTest", "node_test", "obstacle"]
