"""Devices train and score like the reference."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.checks import changed_settings
from neglm_cli.lm.device import Device
from neglm_cli.settings.train_lm import Settings
from tests.lm.making import SMALL, ReferenceTraining, device, minibatch, model_of

WORDS = 90
STEPS = (None, None, 3, 1, None)  # the last minibatch of an epoch is shorter

VARIANTS: dict[str, dict[str, Any]] = {
    "neglm": {},
    "neglm-b": {"loss": "neglm-b", "noise_alpha": 0.75, "log_z": 1.5},
    "nce": {"loss": "nce", "log_z": 0.5},
    "neg": {"loss": "neg"},
    "softmax": {"loss": "softmax"},
    "shared by a step": {"noise": "step", "loss": "neglm-b", "k": 40},
    "shared by a batch": {"noise": "batch", "loss": "nce"},
    "no dropout": {"dropout": 0.0},
    "reset": {"reset_at_eos": True},
    "adagrad": {"optimizer": "adagrad", "lr": 0.05},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "exact adam": {"optimizer": "adam", "adam": "exact", "lr": 0.01},
    "adam, softmax": {"optimizer": "adam", "loss": "softmax", "lr": 0.01},
    "not clipped": {"clip": 1e9, "lr": 0.1},
    "one layer, one thread": {"layers": 1, "threads": 1},
    "three layers, three threads": {"layers": 3, "threads": 3},
    "one row": {"batch": 1},
    "more rows than a tile": {"batch": 23, "hidden": 40, "embedding": 33},
    "threads without words": {"loss": "softmax", "threads": 7},
    "weight decay": {"weight_decay": 0.05},
    "weight decay, adam, tied": {"weight_decay": 2.0, "optimizer": "adam", "lr": 0.01, "tie": True},
    "weight decay, adagrad": {"weight_decay": 0.5, "optimizer": "adagrad", "lr": 0.05},
    "average": {"average": 1},
    "average, tied": {"average": 1, "tie": True, "threads": 3},
    "variational dropout": {"dropout_kind": "variational"},
    "embedding dropout": {"embedding_dropout": 0.3},
    "recurrent dropout": {"recurrent_dropout": 0.4},
    "all dropout": {
        "dropout_kind": "variational",
        "embedding_dropout": 0.2,
        "recurrent_dropout": 0.4,
        "tie": True,
        "threads": 3,
    },
    "tied": {"tie": True},
    # With seed 1, gradients cancel to 1e-8, and Adagrad divides them by their own size.
    "tied, nce, adagrad": {"tie": True, "loss": "nce", "optimizer": "adagrad", "lr": 0.05, "seed": 3},
    "tied, adam": {"tie": True, "optimizer": "adam", "lr": 0.01, "threads": 3},
    "tied, exact adam": {"tie": True, "optimizer": "adam", "adam": "exact", "lr": 0.01},
    "tied, softmax": {"tie": True, "loss": "softmax"},
    "tied, softmax, exact adam": {
        "tie": True,
        "loss": "softmax",
        "optimizer": "adam",
        "adam": "exact",
        "lr": 0.01,
        "threads": 3,
    },
    "tied, shared by a step": {"tie": True, "noise": "step", "loss": "neglm-b", "k": 40},
    "tied, whole cache lines": {"tie": True, "hidden": 16},
}


def variant_of(settings: Settings, name: str) -> Settings:
    return changed_settings(settings, VARIANTS[name])


def compare(
    settings: Settings, trained: Device, lengths: tuple[int | None, ...] = STEPS, rows: slice = slice(None)
) -> None:
    """Train on minibatches of the given lengths, then score a text. rows: the device's rows of the batch."""
    expected = ReferenceTraining(settings, WORDS)
    try:
        for number, steps in enumerate(lengths):
            batch = minibatch(settings, WORDS, number, steps)
            result = trained.train(batch).result()
            wanted = expected.train(batch).result()
            assert result.words == wanted.words == batch.inputs.size
            assert result.loss == pytest.approx(wanted.loss, rel=1e-5)
            assert result.norm == pytest.approx(wanted.norm, rel=1e-4)
            if settings.average:
                for each in (trained, expected):
                    each.add_to_average(number + 1)
        trained.flush_lazy_updates(len(lengths), settings.lr)
        np.testing.assert_allclose(trained.log_z(), expected.log_z()[rows], atol=2e-4)
        if settings.average:  # compare the average, and as state of the optimizer the parameters
            kept = model_of(trained.parameters(), settings)
            trained.swap_average()
            expected.swap_average()
            for mine, theirs in zip(kept.arrays(), expected.average.arrays(), strict=True):  # type: ignore[union-attr]
                np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=1e-4)
        found = model_of(trained.parameters(), settings)
        for mine, theirs in zip(found.arrays(), expected.model.arrays(), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=1e-4)
        random = np.random.default_rng(0)
        inputs, targets = random.integers(0, WORDS, (2, 1, 12)).astype(np.int32)
        scorer, whole = trained.scorer(8), expected.scorer(12).score(inputs, targets)
        for part in (slice(0, 8), slice(8, 12)):
            scores = scorer.score(inputs[:, part], targets[:, part])
            np.testing.assert_allclose(scores.log_probabilities, whole.log_probabilities[:, part], atol=2e-4)
            np.testing.assert_allclose(scores.log_z, whole.log_z[:, part], atol=2e-4)
    finally:
        trained.close()


@pytest.mark.parametrize("variant", VARIANTS)
def test_matches_the_reference(variant: str) -> None:
    settings = variant_of(SMALL, variant)
    compare(settings, device(settings, WORDS))


def test_neg_trains_the_same_parameters_as_neglm() -> None:
    """Bit-identical parameters if log Z is 0; only the interpretation of scores differs."""
    losses, trained = [], []
    for loss in ("neglm", "neg"):
        made = device(replace(SMALL, loss=loss, log_z=0.0), WORDS)
        losses.append([made.train(minibatch(SMALL, WORDS, number)).result().loss for number in range(3)])
        trained.append(model_of(made.parameters(), SMALL).arrays())
        made.close()
    assert losses[0] == losses[1]
    for neglm, neg in zip(*trained, strict=True):
        np.testing.assert_array_equal(neglm, neg)
