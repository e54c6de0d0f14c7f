"""The losses of language models, each declared once; `objective.losses` has their mathematics.

The choices of --loss, the options that a loss allows, the metadata of files and their validation follow from this
table.
"""

from typing import NamedTuple


class LossSpec(NamedTuple):
    """The terms of a loss's scores; p_α is the noise distribution."""

    help: str
    bias: bool = False  # True if words have a learned bias
    log_z: bool = False  # True if a constant log Z is subtracted
    train_correction: bool = False  # True if log(k p_α(w)) is subtracted in training only
    test_correction: bool = False  # True if log(k p_α(w)) is added at test time only
    sampled: bool = True  # True if it uses noise words


LOSSES = {
    "neglm": LossSpec("negative sampling, corrected at test time (the paper)", log_z=True, test_correction=True),
    "neglm-b": LossSpec("with a learned bias", bias=True, log_z=True, test_correction=True),
    "nce": LossSpec("noise-contrastive estimation", bias=True, log_z=True, train_correction=True),
    "neg": LossSpec("negative sampling without the correction, to compare"),
    "softmax": LossSpec("over all words, to compare", bias=True, sampled=False),
}
LOSSES_WITH_LOG_Z = [name for name, loss in LOSSES.items() if loss.log_z]
LOSSES_WITHOUT_LOG_Z = [name for name, loss in LOSSES.items() if not loss.log_z]
