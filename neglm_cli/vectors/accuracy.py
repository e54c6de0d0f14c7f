"""How many analogies are answered right: the file of questions, section by section, and the counts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.vectors.analogies import Method, first_answers
from neglm_cli.vectors.directions import Directions
from neglm_cli.vectors.lexicon import Lexicon, known
from neglm_cli.vectors.questionfile import numbered_lines

SECTION = b":"
SYNTACTIC = b"gram"  # how the names of syntactic sections start
UNNAMED = b"unnamed"  # questions before the first section


@dataclass(frozen=True)
class Section:
    name: bytes
    questions: list[tuple[bytes, ...]] = field(default_factory=list)  # a is to b as c is to d

    @property
    def syntactic(self) -> bool:
        return self.name.startswith(SYNTACTIC)


@dataclass(frozen=True)
class Tally:
    """Of the questions, those whose four words are known are used; the others are skipped."""

    questions: int
    used: int
    correct: dict[Method, int]

    def accuracy(self, method: Method) -> float | None:
        """The share of right answers among the questions that were used."""
        return self.correct[method] / self.used if self.used else None

    def accuracy_all(self, method: Method) -> float | None:
        """The share of right answers among all questions: those skipped count as wrong."""
        return self.correct[method] / self.questions if self.questions else None


def read_sections(path: str) -> list[Section]:
    """Lines of four words, in sections that lines such as `: family` begin."""
    sections: list[Section] = []
    for where, line in numbered_lines(path):
        if line.startswith(SECTION):
            name = line.removeprefix(SECTION).strip()
            if not name:
                raise NeglmError(f"{where}: expected the name of a section behind the colon")
            sections.append(Section(name))
            continue
        words = tuple(line.split())
        if len(words) != 4:
            raise NeglmError(f"{where}: expected four words, or a colon and the name of a section")
        if not sections:
            sections.append(Section(UNNAMED))
        sections[-1].questions.append(words)
    if not any(section.questions for section in sections):
        raise NeglmError(f"{shown(path)} has no questions: expected lines of four words")
    return sections


def tallies(
    sections: list[Section], lexicon: Lexicon, words: Directions, methods: Iterable[Method],
    advance: Callable[[int], None] = lambda count: None,
) -> list[Tally]:  # fmt: skip
    """Ask all questions, with the lexicon's words as candidates; one tally for each section. `advance` is told how many
    candidates have been looked at, by each method."""
    places = lexicon.places([question for section in sections for question in section.questions])
    used = known(places)
    units = words.units(lexicon.ids)
    right: dict[Method, np.ndarray] = {}
    for method in methods:
        right[method] = np.zeros(len(places), bool)
        right[method][used] = first_answers(units, places[used, :3], method, advance) == places[used, 3]
    result = []
    start = 0
    for section in sections:
        its = slice(start, start + len(section.questions))
        correct = {method: int(answered[its].sum()) for method, answered in right.items()}
        result.append(Tally(len(section.questions), int(used[its].sum()), correct))
        start = its.stop
    return result


def together(parts: Iterable[Tally], methods: Iterable[Method]) -> Tally:
    """The sum of tallies."""
    listed = list(parts)
    return Tally(
        sum(part.questions for part in listed),
        sum(part.used for part in listed),
        {method: sum(part.correct[method] for part in listed) for method in methods},
    )
