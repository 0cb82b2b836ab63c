"""The figures of Kenthapadi, Korolova, Mironov and Mishra 2013."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {"kkmm-fig1": "feasible"}
