"""How much a newcomer reads for each task, and how much the page reads that says which engine to choose."""

import pytest

from tests.cli.running import ROOT

STREAM = ["tutorials/unbounded-stream.md", "how-to/operate.md"]
BUDGETS: dict[str, tuple[int, list[str]]] = {
    "two parties": (1_500, ["tutorials/two-parties.md"]),
    "people with outliers": (2_000, ["tutorials/customers.md", "how-to/protect-people.md"]),
    "a stream": (3_000, [*STREAM, "how-to/runbook.md"]),
    "sites": (3_000, ["tutorials/sites.md", "how-to/compare-sites.md"]),
    "Kafka with Flink": (5_000, [*STREAM, "how-to/kafka.md", "how-to/flink.md"]),
    "which engine": (600, ["how-to/choose-engine.md"]),
}
"""The most words of a task's pages together, code and tables included, as ``wc -w`` counts them."""


@pytest.mark.parametrize("task", BUDGETS)
def test_a_task_takes_no_more_words_than_its_budget(task: str) -> None:
    most, pages = BUDGETS[task]
    words = {page: len((ROOT / "docs" / page).read_text(encoding="utf-8").split()) for page in pages}
    assert sum(words.values()) <= most, f"{task}: cut what the agreement says, or move facts to reference: {words}"
