"""The figures of Asi, Feldman, Nelson, Nguyen and Talwar 2023."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {
    "afnnt-fig1": "errors",
    "afnnt-fig2": "budget",
    "afnnt-fig3": "running_time",
    "afnnt-fig4-5": "federated",
    "afnnt-table1": "tradeoffs",
}
