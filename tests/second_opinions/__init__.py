"""The definitions of linattn_spec against implementations that nobody here wrote.

    python -m second_opinions [--results DIRECTORY] onnxruntime | transformers | fla

Everything else in this repository is compared with the definitions. Here they are compared: with
the kernel of ONNX Runtime, functions of Transformers and references of flash-linear-attention.
`nox -s oracle` installs what this needs and runs it, each in an environment of its own.
"""
