"""Language models for PyTorch: a state dict with the names and gate order of nn.LSTM, and a module that loads it.

A folder has four files: `model.safetensors`, `vocab.txt` (word TAB count, in the order of ids), `config.json`, and
`language_model.py`, the module.
"""

import json
from pathlib import Path

import numpy as np

from neglm_cli.interop.network import Network
from neglm_cli.store.output import writing_folder
from neglm_cli.store.state_dict import write_state_dict
from neglm_cli.text import wordlist

WEIGHTS, WORDS, CONFIG, MODULE = FILES = ("model.safetensors", "vocab.txt", "config.json", "language_model.py")
MODULE_SOURCE = Path(__file__).with_name("pytorch_folder") / MODULE  # not in a package: it needs PyTorch


def export(network: Network, folder: str) -> None:
    """Write the folder."""
    with writing_folder(folder, FILES) as (weights, words, config, module):
        write_state_dict(weights, state_dict(network))
        words.writelines(wordlist.lines(network.words))
        config.write(json.dumps(_config(network), indent=2).encode() + b"\n")
        module.write(MODULE_SOURCE.read_bytes())


def state_dict(network: Network) -> dict[str, np.ndarray]:
    """Return the parameters under PyTorch's names. Gates are in the same order, weights transposed. neglm has one bias
    for each gate, PyTorch two, which it adds."""
    found = {"embedding.weight": network.embedding}
    for number, layer in enumerate(network.layers):
        found |= {
            f"lstm.weight_ih_l{number}": layer.w_ih.T,
            f"lstm.weight_hh_l{number}": layer.w_hh.T,
            f"lstm.bias_ih_l{number}": layer.bias,
            f"lstm.bias_hh_l{number}": np.zeros_like(layer.bias),
        }
    if not network.tied:  # safetensors files have no two names for one tensor
        found["output.weight"] = network.output
    return found | {"output.bias": network.output_bias}


def _config(network: Network) -> dict[str, object]:
    return {
        "vocabulary": len(network.words),
        "embedding": network.embedding.shape[1],
        "hidden": network.hidden,
        "layers": len(network.layers),
        "tied": network.tied,
        "reset_at_eos": network.reset_at_eos,
    }
