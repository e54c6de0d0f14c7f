"""The progress of a language model's training, as files store it; neglm-format(5) explains its fields."""

from dataclasses import dataclass, field


@dataclass
class Progress:
    """The progress of a training. Equal trainings have equal progress: no clock is involved."""

    epoch: int = field(default=0, metadata={"meaning": "Epochs completed."})
    minibatch: int = field(
        default=0,
        metadata={"meaning": "Minibatches completed in the current epoch; 0 between epochs and in a finished model."},
    )
    step: int = field(default=0, metadata={"meaning": "Minibatches completed in all epochs."})
    words: int = field(default=0, metadata={"meaning": "Words predicted in all epochs."})
    loss_sum: float = field(
        default=0.0,
        metadata={
            "meaning": "Training loss in nats, summed over the words of the current epoch; 0 between epochs and in a "
            "finished model."
        },
    )
    loss_words: int = field(default=0, metadata={"meaning": "Number of words in that sum."})
    epoch_losses: list[float] = field(
        default_factory=list,
        metadata={"meaning": "List with the mean training loss of each completed epoch, in nats per word."},
    )
    valid_perplexities: list[float] = field(
        default_factory=list,
        metadata={
            "meaning": "List with the validation perplexity after each completed epoch; empty without a validation "
            "text."
        },
    )
    averaged: int = field(
        default=0, metadata={"meaning": "Number of snapshots in the average of the parameters; see TRAINING."}
    )

    @property
    def best(self) -> float:
        """The lowest validation perplexity."""
        return min(self.valid_perplexities, default=float("inf"))

    @property
    def best_epoch(self) -> int:
        """The number of the best epoch, from 1; 0 without a validation text."""
        return self.valid_perplexities.index(self.best) + 1 if self.valid_perplexities else 0
