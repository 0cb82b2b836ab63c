"""Make the pictures of the gallery and of the explanations from their scripts, light and dark: ``make pictures``.

The noise is the same each time, unlike a user's: it comes from a fixed secret, so that pictures change only with code.
"""

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt

from streamsketch.privacy.samplers import KeyedBits, SystemBits

DOCS = Path(__file__).parent
SCRIPTS = sorted([*DOCS.glob("gallery/*.py"), *DOCS.glob("explanation/pictures/*.py")])
LOOKS = {"light": ("#1a1c1e", "#d0d4d8"), "dark": ("#e8eaed", "#44484d")}
LINES = {
    "light": ["#0b62b8", "#b3470a", "#1b7a3d", "#a3195b"],
    "dark": ["#6cb4ff", "#ffa566", "#6fd28f", "#ff8fc0"],
}


def look(name: str) -> dict[str, object]:
    """Return matplotlib's settings of a variant: on no ground, as that is the page's."""
    ink, faint = LOOKS[name]
    inked = ["text.color", "axes.labelcolor", "xtick.color", "ytick.color", "legend.labelcolor"]
    return {
        **dict.fromkeys(inked, ink),
        "axes.edgecolor": faint,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "legend.frameon": False,
        "axes.prop_cycle": mpl.cycler(color=LINES[name]),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "svg.hashsalt": "streamsketch",
        "path.simplify_threshold": 1.0,
    }


def run(script: Path) -> plt.Figure:
    """Run a script with noise that is always the same, and return its figure."""
    bits = KeyedBits(bytes(32), script.stem.encode())
    system, SystemBits.read = SystemBits.read, lambda _, size: bits.read(size)  # type: ignore[method-assign]
    try:
        runpy.run_path(str(script))
    finally:
        SystemBits.read = system  # type: ignore[method-assign]
    return plt.gcf()


def main(names: list[str]) -> None:
    """Make the pictures of the scripts named, or of all."""
    for script in SCRIPTS:
        if not names or script.stem in names:
            for name in LOOKS:
                with mpl.rc_context(look(name)):
                    figure = run(script)
                    figure.savefig(script.with_name(f"{script.stem}-{name}.svg"), metadata={"Date": None})
                    plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
