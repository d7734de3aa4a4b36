"""A small language model over bytes whose attention is linear: trained, streamed, saved, measured.

`python -m byte_language_model` runs all of it; `KERAS_BACKEND` chooses the framework.
"""

import os

# Keras reads it once, when it is first imported.
os.environ.setdefault("KERAS_BACKEND", "torch")
