"""The figures of Li and Li 2023."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {
    "ll-retrieval": "retrieval",
    "ll-svm": "svm",
    "ll-fig7": "sensitivity",
    "ll-fig8": "sign_changes",
    "ll-fig10": "levels",
    "ll-fig11": "variance_ratio",
    "ll-fig12": "gaussian_noise",
}
