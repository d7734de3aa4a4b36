"""A small language model over bytes whose attention is linear: trained, streamed, saved, measured.

`python -m byte_language_model` runs all of it; `KERAS_BACKEND` chooses the framework.
"""

import os

# Both are read once, when Keras and PyTorch are first imported.
os.environ.setdefault("KERAS_BACKEND", "torch")
# Arrays are small here: on a busy machine threads wait for each other longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")
