"""The statements of Stausholm 2021 on variances, which has no figures of its own."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {
    "st-lemma8": "input_noise",
    "st-cells": "best_cells",
    "st-map": "winners",
}
