"""What agreements say, as `explain` shows them."""

from pathlib import Path

import streamsketch as ss
from streamsketch.cli._layout import show_facts
from streamsketch.cli._saying import say
from streamsketch.cli._showing import guarantee_fields, show_json
from streamsketch.cli.agree import facts_of
from streamsketch.errors import IncompatibleAgreementsError, IncompatibleProjectionsError
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.in_windows import publisher_in_windows


def show_agreements(files: list[Path], *, as_json: bool) -> None:
    """Print what agreements say, and the guarantee of a release under each that has terms.

    Raises
    ------
    OSError, InvalidInputError
        For a file that cannot be read, or is no agreement.
    """
    shown, differences = [], []
    first = ss.Agreement.load(files[0])
    for file in files:
        agreed = ss.Agreement.load(file)
        try:
            first.check_same(agreed)
        except (IncompatibleAgreementsError, IncompatibleProjectionsError) as error:
            differences.append(f"{files[0]} and {file}: {error}")
        facts, fields = facts_of(agreed, agreed.projection), agreed.to_dict()
        if agreed.terms is not None:
            of_windows = agreed.windows_are_releases
            publisher = (publisher_in_windows if of_windows else publisher_of)(agreed)
            guarantee = publisher.guarantee(agreed.projection)
            facts["each window" if of_windows else "each release"] = str(guarantee)
            fields |= {"guarantee": guarantee_fields(guarantee)}
        shown.append({"file": str(file), "fingerprint": agreed.fingerprint, "agreement": fields})
        if not as_json:
            show_facts(str(file), facts)
    if as_json:
        show_json({"agreements": shown})
    for difference in differences:
        say(difference)
