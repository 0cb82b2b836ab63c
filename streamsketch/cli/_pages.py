"""Pages of the documentation that are installed with the package, and which of them each command names."""

PAGES = {
    "choose-method": "how-to/choose-method.md",
    "own-data": "how-to/own-data.md",
    "choose-epsilon-and-bounds": "how-to/choose-epsilon-and-bounds.md",
    "choose-projection": "how-to/choose-projection.md",
    "compare-sites": "how-to/compare-sites.md",
    "caches": "how-to/caches.md",
    "data-frames": "how-to/data-frames.md",
    "kafka": "how-to/kafka.md",
    "ledger": "how-to/ledger.md",
    "ranges-of-time": "how-to/ranges-of-time.md",
    "report": "how-to/report.md",
    "text-and-spelling": "how-to/text-and-spelling.md",
    "sign-and-verify": "how-to/sign-and-verify.md",
    "alike": "tutorials/alike.md",
    "customers": "tutorials/customers.md",
    "hospitals": "tutorials/hospitals.md",
    "two-parties": "tutorials/two-parties.md",
    "what-changed": "tutorials/what-changed.md",
    "what-an-outsider-may-see": "explanation/what-an-outsider-may-see.md",
    "privacy-officer": "privacy-officer.md",
    "unbounded-streams": "reference/unbounded-streams.md",
    "error-messages": "reference/error-messages.md",
    "glossary": "reference/glossary.md",
}
"""By topic, as in `streamsketch guide TOPIC`."""

OF_COMMANDS = {
    "agree": "customers",
    "changes": "what-changed",
    "check": "text-and-spelling",
    "choose_bound": "choose-epsilon-and-bounds",
    "compare": "two-parties",
    "demo": "choose-method",
    "describe": "compare-sites",
    "explain": "privacy-officer",
    "frequency": "what-changed",
    "guide": "choose-method",
    "history": "ranges-of-time",
    "ledger": "ledger",
    "nearest": "alike",
    "party": "sign-and-verify",
    "party_key": "sign-and-verify",
    "party_round": "hospitals",
    "plan": "choose-projection",
    "release": "what-an-outsider-may-see",
    "report": "report",
    "sketch": "data-frames",
    "stream": "unbounded-streams",
}
"""The topic of each file of commands; others have `data-frames`, which shows most commands."""


def topic_of(file: str) -> str:
    """Return the topic of a file of commands."""
    return OF_COMMANDS.get(file, "data-frames")
