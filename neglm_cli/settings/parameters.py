"""The parameters of the language model and the state of its optimizers, each declared once.

Initial values, tensors in files and their validation, checkpoints, memory estimates, allreduce buffers and
neglm-format(5) follow from these tables. Shapes: V words, D embedding, H hidden units, I inputs of a layer (D for the
first layer, H for the others). In a tied model D is H, and one table serves as embedding and output.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

EXPRESSION = re.compile(r"(\d*)([A-Z]?)(?:\+(\d+))?")


class Dimension(NamedTuple):
    """The length of a dimension, `times` · letter + `plus`: 4H, V+1, or a number without a letter."""

    times: int
    letter: str
    plus: int

    @classmethod
    def parse(cls, expression: str) -> "Dimension":
        match = EXPRESSION.fullmatch(expression)
        assert match, expression
        return cls(int(match[1] or 1), match[2], int(match[3] or 0))

    def length(self, lengths: Mapping[str, int]) -> int:
        """Return the length. lengths: by letter."""
        return self.times * (lengths[self.letter] if self.letter else 1) + self.plus


def layer_inputs(layer: int, tied: bool) -> str:
    """Return the dimension that I stands for in a layer."""
    return "H" if layer or tied else "D"


def layer_shape(shape: tuple[str, ...], layer: int, tied: bool) -> tuple[str, ...]:
    """Return the shape of a layer's tensor, without I."""
    return tuple(layer_inputs(layer, tied) if letter == "I" else letter for letter in shape)


class ParameterSpec(NamedTuple):
    """A parameter tensor: its name in files, shape, initial values, and the array that holds it while training.

    A table has one row per word, of which a minibatch touches a few: gradients are sparse. Parameters of the same table
    share its rows, one after the other. All other parameters are dense, one tensor per layer.
    """

    name: str  # {layer} stands for the number of a layer
    shape: tuple[str, ...]
    meaning: str
    uniform: str = ""  # the setting X of initial values uniform in [-X, X]
    constant: str = ""  # the setting that is the initial value
    table: str = ""
    tied_to: str = ""  # a tied model has this parameter instead, with these initial values
    layer: int = -1  # the number in the name, filled in by `parameters`

    @property
    def array(self) -> str:
        """The field of `Weights` that holds it: its table, or an array for all layers."""
        return self.table or self.name.rpartition(".")[2]


PARAMETERS = (
    ParameterSpec("embedding", ("V", "D"), "input vector of each word; a tied model uses its rows of `output`",
                  uniform="init_range", table="embedding", tied_to="output"),
    ParameterSpec("output", ("V", "H"), "output vector of each word", uniform="init_output", table="output"),
    ParameterSpec("output_bias", ("V",), "bias of each word; 0 for losses without biases", constant="bias_init",
                  table="output"),
    ParameterSpec("lstm.{layer}.w_ih", ("I", "4H"), "input weights of the layer; columns are the gates i, f, g, o",
                  uniform="init_range"),
    ParameterSpec("lstm.{layer}.w_hh", ("H", "4H"), "recurrent weights of the layer, of its previous h",
                  uniform="init_range"),
    ParameterSpec("lstm.{layer}.bias", ("4H",), "biases of the layer's gates", uniform="init_range"),
)  # fmt: skip
DENSE = tuple(dict.fromkeys(spec.array for spec in PARAMETERS if not spec.table))


def tables(tied: bool = False) -> tuple[str, ...]:
    """Return the tables of a model."""
    return tuple(dict.fromkeys(spec.table for spec in PARAMETERS if spec.table and not (tied and spec.tied_to)))


def parameters(layers: int, tied: bool = False) -> list[ParameterSpec]:
    """Return all parameters of a model: those of the tables, then those of each layer.

    The order numbers the random streams of initial values.
    """
    uniform = {spec.tied_to: spec.uniform for spec in PARAMETERS if tied and spec.tied_to}
    found = [
        spec._replace(uniform=uniform.get(spec.name, spec.uniform)) for spec in PARAMETERS if spec.table in tables(tied)
    ]
    for layer in range(layers):
        for spec in PARAMETERS:
            if not spec.table:
                shape = layer_shape(spec.shape, layer, tied)
                found.append(spec._replace(name=spec.name.format(layer=layer), shape=shape, layer=layer))
    return found


class StateSpec(NamedTuple):
    """A value that an optimizer keeps for each parameter; its tensors in files are `{name}.{parameter}`."""

    name: str  # as in PyTorch
    meaning: str
    array: str  # the field of `OptimizerState` that holds it
    nonnegative: bool = False


class OptimizerSpec(NamedTuple):
    """The state of an optimizer. row_steps: `last_update_step.{table}` has the step of each row's last update."""

    state: tuple[StateSpec, ...] = ()
    row_steps: bool = False


OPTIMIZERS = {
    "sgd": OptimizerSpec(),
    "adagrad": OptimizerSpec((StateSpec("sum", "sums of squared gradients", "exp_avg_sq", nonnegative=True),)),
    "adam": OptimizerSpec(
        (
            StateSpec("exp_avg", "moving averages of gradients", "exp_avg"),
            StateSpec("exp_avg_sq", "moving averages of squared gradients", "exp_avg_sq", nonnegative=True),
        ),
        row_steps=True,
    ),
}
ANCHORED = "anchored"
ALL_OPTIMIZERS = OPTIMIZERS | {  # with that of dynamic evaluation, which trains no file
    ANCHORED: OptimizerSpec((StateSpec("anchor", "trained parameters", "exp_avg"),), row_steps=True)
}
LAST_UPDATE_STEP = "last_update_step"
AVERAGE = "average."  # prefix of the averages of parameters

HIDDEN_STATE, CELL_STATE = "hidden_state", "cell_state"  # of the LSTM, carried from minibatch to minibatch
