"""Sections of neglm-format(5) on language models: the network, the losses, the training, the keys of `progress`.

The tests evaluate the formulas here and compare them with what neglm computes.
"""

from dataclasses import fields
from typing import NamedTuple

from neglm_cli.cli.roff import bold, paragraph, section, tagged, verbatim
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import AVERAGE_EVERY

NETWORK = (
    "z = x @ lstm.n.w_ih + h @ lstm.n.w_hh + lstm.n.bias",
    "i, f, g, o = split(z, 4)",
    "c = sigmoid(f) * c + sigmoid(i) * tanh(g)",
    "h = sigmoid(o) * tanh(c)",
)


class LossFormulas(NamedTuple):
    """Formulas of one loss, in Python."""

    score: str  # in training
    logit: str  # at test time


LOSSES = {
    "neglm": LossFormulas("x - log_z", "x - log_z + log(k*q)"),
    "neglm-b": LossFormulas("x + b - log_z", "x + b - log_z + log(k*q)"),
    "nce": LossFormulas("x + b - log_z - log(k*q)", "x + b - log_z"),
    "neg": LossFormulas("x", "x"),
    "softmax": LossFormulas("x + b", "x + b"),
}
NOISE = "q = counts**noise_alpha / sum(counts**noise_alpha)"

OPTIMIZERS = {
    "sgd": ("p -= lr * g",),
    "adagrad": ("v += g**2", "p -= lr * g / (sqrt(v) + 1e-8)"),
    "adam": (
        "m = 0.9 * m + 0.1 * g",
        "v = 0.999 * v + 0.001 * g**2",
        "lr_t = lr * sqrt(1 - 0.999**t) / (1 - 0.9**t)",
        "p -= lr_t * m / (sqrt(v) + 1e-8)",
    ),
}
LEARNING_RATES = {
    "step": "lr * decay ** -max(0, epoch - decay_from)",
    "plateau": "lr * decay ** -worse",
    "cosine": "lr * (1 + cos(pi * (epoch - 1 + minibatch / minibatches) / epochs)) / 2",
}


def model_sections() -> list[str]:
    return [*_network(), *_probabilities(), *_training(), *_progress()]


def _network() -> list[str]:
    return [
        *section(
            "NETWORK",
            "A text is one sequence of words, with `<eos>` after each line (see TEXT RULES). The model predicts each "
            "word, and each `<eos>`, from the words before it. To predict the first word, it starts with `<eos>` as "
            "the first input, and with h = c = 0 in all layers.",
            "If `reset_at_eos` is `true` in the metadata, the model also sets h = c = 0 in all layers before each "
            "later input `<eos>`, at test time as in training, so that lines do not depend on each other. If it is "
            "`false` or missing, the state is carried from line to line: `neglm eval` does so; `neglm score` starts "
            "each line with h = c = 0 unless --carry is given.",
            "The input x of layer 0 is the input word's row of `embedding`, or of `output` if `tie` is `true`. Each "
            "layer n, counted from 0, computes from x and from the h and c of its previous step:",
        ),
        *verbatim(*NETWORK),
        *paragraph(
            "and passes h on to the next layer as its x. The four parts of z, H numbers each, are for the input "
            "gate, the forget gate, the new value and the output gate. Dropout is used in training only, where it "
            "multiplies the units that it keeps by 1 / (1 - dropout); at test time the weights are used as they are."
        ),
        *paragraph(
            "Compared with torch.nn.LSTM: layers count from 0 and gates have the same order. The matrices are "
            "transposed: weight_ih_l0 is the transpose of `lstm.0.w_ih`, weight_hh_l0 that of `lstm.0.w_hh`. "
            "There is one bias per gate where PyTorch adds two: `lstm.0.bias` is bias_ih_l0 + bias_hh_l0."
        ),
    ]


def _probabilities() -> list[str]:
    rows = [f"{name:<8}  {loss.score:<24}  {loss.logit}" for name, loss in LOSSES.items()]
    return [
        *section(
            "PROBABILITIES",
            "For a word w, let x be the dot product of its row of `output` with h of the last layer, b its "
            "`output_bias`, and q its noise probability, from the counts of all V words:",
        ),
        *verbatim(NOISE),
        *paragraph(
            "k, log_z and noise_alpha are in the metadata; logarithms are natural. The loss, also in the metadata, "
            "determines the training score and the test-time logit:"
        ),
        *verbatim(f"{'loss':<8}  {'training score':<24}  logit", *rows),
        *paragraph(
            "The log-probability of w is its logit minus the log of the sum of exp(logit) over all V words. log_z "
            "and k cancel in it. What neglm calls unnormalized (`unnormalized_perplexity` of neglm-eval(1), "
            "--unnormalized of neglm-score(1)) takes the logit itself as the log-probability, so there they do not "
            "cancel. `log_z_mean` and `log_z_std`, of neglm-eval(1) and of --log, are the mean and standard "
            "deviation of the log of the sum over words of the text; despite their names they have nothing to do "
            "with the constant log_z."
        ),
        *paragraph(
            "The sampled losses draw k noise words by q for each word of the text, or, if `noise` in `arguments` is "
            "`step` or `batch`, for several words in common. With s for training scores, the loss of a word is -log "
            "sigmoid(s) for the word itself plus -log sigmoid(-s) for each of its noise "
            "words. At the optimum s is log p(w|c) - log(k*q), and therefore the logit is log p(w|c), except for "
            "`neg`: that loss omits the correction log(k*q), and its logit is the training score. The loss of "
            "`softmax` is the negative log-probability; it does not depend on k and q. log_z is 0 for `neg` and "
            "`softmax`."
        ),
    ]


def _training() -> list[str]:
    rows = [
        f"{'' if i else name:<8}  {formula}"
        for name, formulas in OPTIMIZERS.items()
        for i, formula in enumerate(formulas)
    ]
    return [
        *section(
            "TRAINING",
            "A program that resumes a checkpoint needs the following. Options of the training, such as batch and clip, "
            "are in `arguments`.",
            "A text of N words, including `<eos>` of each line, is divided among B = batch rows: with L = "
            "floor((N-1) / B), the inputs of row r are words r*L to r*L+L-1, counted from 0, and the target of each "
            "is the word after it. So an epoch predicts L*B words, and never the first word of the text, which is an "
            "input only. A minibatch takes the next bptt words of each row; the last one of an epoch takes what is "
            "left. The state starts with h = c = 0. It is carried from minibatch to minibatch, also from the last "
            "one of an epoch to the first one of the next; reset_at_eos applies as at test time.",
            "The gradient g is that of the loss summed over the words of a minibatch and divided by B. "
            "`gradient_norm` in --log is the norm of g over all parameters, before clipping; where it is above clip, "
            "g is multiplied by clip / `gradient_norm`. The learning rate follows from the option schedule:",
        ),
        *verbatim(*(f"{name:9}{formula}" for name, formula in LEARNING_RATES.items())),
        *paragraph(
            "epoch counts from 1, minibatch, of the minibatches of an epoch, from 0. worse is the number of earlier "
            "epochs with a validation perplexity (`valid_perplexities` of `progress`) no lower than the lowest "
            "before them. Files without schedule have step."
        ),
        *paragraph(
            "The optimizer updates parameters p as follows. m is in the tensors `exp_avg.*`, v in `exp_avg_sq.*`, or "
            "`sum.*` for Adagrad. Both start at 0; t counts minibatches from 1, through all epochs (`step` of "
            "`progress`):"
        ),
        *verbatim(*rows),
        *paragraph(
            "Adam adds epsilon to the square root of v before the bias correction; torch.optim.Adam adds it after, "
            "and agrees with eps = 1e-8 / sqrt(1 - 0.999**t) at step t. torch.optim.Adagrad agrees with eps = 1e-8; "
            "its default is 1e-10."
        ),
        *paragraph(
            "Before that, weight decay shrinks all p that have a gradient: p -= lr * weight_decay * p, as in "
            "torch.optim.AdamW. Files without weight_decay have 0."
        ),
        *paragraph(
            "A minibatch touches the rows of `embedding` of its inputs (of `output` if `tie` is `true`), and the "
            "rows of `output` and `output_bias` of its targets and noise words (all rows for softmax). If adam is "
            "`lazy`, Adam leaves p, m and v of all other rows as they are. If it is `exact`, rows get the steps that"
            " they missed, with g = 0, when they are touched again and at the end of each epoch; from the 301st "
            "missed step on, only m and v change. `last_update_step.embedding` and `last_update_step.output` hold "
            "the step of each row's last update, or 0 for rows not touched yet and for `output` with softmax."
        ),
        *paragraph(
            "With the option average, the tensors `average.*` hold the mean of each parameter over `averaged` "
            f"snapshots (see PROGRESS), one after every {AVERAGE_EVERY} minibatches since the start of the average. "
            "They are validated and saved as the model; training continues with the parameters themselves."
        ),
    ]


def _progress() -> list[str]:
    lines = section("PROGRESS", "Keys of `progress` in language models and checkpoints:")
    return lines + [line for each in fields(Progress) for line in tagged(bold(each.name), each.metadata["meaning"])]
