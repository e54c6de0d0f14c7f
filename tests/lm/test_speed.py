from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.speed import flop_per_word
from neglm_cli.settings.train_lm import Settings


def test_flop_of_the_papers_model() -> None:
    """Each word takes three multiply-adds per weight of the layers, and per value of a scored row."""
    shape = Shape(words=10_000, embedding=300, hidden=300, layers=2)
    layers = 2 * (300 + 300) * 1200
    assert flop_per_word(shape, Settings()) == 6 * (layers + 101 * 300)
    assert flop_per_word(shape, Settings(loss="softmax")) == 6 * (layers + 10_000 * 300)
    assert flop_per_word(Shape(9, 7, 5, 1), Settings(k=2)) == 6 * (20 * (7 + 5) + 3 * 5)
