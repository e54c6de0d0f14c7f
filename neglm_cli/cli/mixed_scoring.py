"""Scorers of lines for `neglm score`, with or without additions at test time."""

from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.mixing import is_mixed, open_mixed, save_adapted
from neglm_cli.cli.options import find_gpu, thread_count
from neglm_cli.cli.reading import Opened, load_model, open_model

if TYPE_CHECKING:
    from neglm_cli.lm.lines import LineScorer
    from neglm_cli.lm.mixed_lines import InterpolatedLines, OrderedLines
    from neglm_cli.lm.mixing import MixedScorer


class LineScoring:
    """A language model that scores the lines of several texts."""

    def __init__(self, opened: Opened, given: dict[str, Any], normalized: bool, mixed: Any = None) -> None:
        """given: the options of `settings.mixing`; mixed: the `MixedModel` that they describe."""
        self.opened = opened
        self._given, self._normalized, self._mixed = given, normalized, mixed
        self._scorer: MixedScorer | None = None

    def start(self) -> "LineScorer | OrderedLines | InterpolatedLines":
        """Return the scorer of a new text."""
        from neglm_cli.lm.lines import LineScorer
        from neglm_cli.lm.mixed_lines import InterpolatedLines, OrderedLines

        end = self.opened.model.end_of_line
        if _in_order(self._given):
            self._scorer = self._mixed.scorer()
            return OrderedLines(self._scorer, self._normalized)
        self.opened.scorer.reset()
        lines = LineScorer(self.opened.scorer, end, self._normalized)
        if self._mixed is None:
            return lines
        mixing = self._mixed.mixing
        mixing.ngram.reset()
        return InterpolatedLines(lines, mixing.ngram, mixing.ngram_weight, end)

    def finish(self) -> None:
        """Save the adapted model, if that was asked for."""
        if self._scorer is not None and "save_adapted" in self._given:
            save_adapted(self._given["save_adapted"], self.opened.model, self._scorer)

    def close(self) -> None:
        self.opened.device.close()


def open_lines(
    path: str, device: str, threads: int | None, given: dict[str, Any], carry: bool, normalized: bool
) -> LineScoring:
    """Load a model. carry: keep the state from line to line."""
    from neglm_cli.lm.lines import BATCH_WORDS
    from neglm_cli.text.encode import Encoder

    if not is_mixed(given):
        return LineScoring(open_model(path, device, threads, BATCH_WORDS), given, normalized)
    gpu = find_gpu(device)
    model = load_model(path)
    mixed: Any = open_mixed(model, given, thread_count(threads), gpu, reset_at_eos=not carry)
    if not _in_order(given):
        from neglm_cli.lm.devices import scoring_device

        loaded = scoring_device(model, thread_count(threads), gpu, console.note)
        opened = Opened(model, loaded, loaded.scorer(BATCH_WORDS), Encoder(model.words, unknown=len(model.words)))
        return LineScoring(opened, given, normalized, mixed)
    return LineScoring(
        Opened(model, mixed, mixed, Encoder(model.words, unknown=len(model.words))), given, normalized, mixed
    )


def _in_order(given: dict[str, Any]) -> bool:
    """True if a line changes the scores of later ones."""
    return "adapt" in given or "cache" in given
