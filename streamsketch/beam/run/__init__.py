"""Shared by all jobs: a run's secret, noise drawn once, claims on outputs, charges to ledgers, ordering, coders.

While a pipeline is built, its transforms need facts about each other, and Beam has no place for these. They are
attributes of Beam's own objects, and are kept nowhere else:

- A ``PCollection`` has the public facts about secret data. `known.with_known` sets them. Steps that are not ours lose
  them.
- A ``Pipeline`` has ``streamsketch_secret``, where its secret comes from (`runs.configure_run`, `runs.use_secret`);
  ``streamsketch_clock``, what advances its watermark (`streams.lateness.agree_on_clock`); and
  ``streamsketch_contributes``, if it contributes to a round (`release.contribute`).

`steps.Step` lists few of its methods, because Beam searches all listed methods several times for each step.
"""
