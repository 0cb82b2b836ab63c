"""Shared by all jobs: a run's secret, noise drawn once, claims on outputs, charges to ledgers, ordering, coders.

Transforms of one pipeline must know of each other while it is built, and Beam has no place for that. It is kept as
attributes of Beam's own objects, and nowhere else:

- of a ``PCollection``, what is known of secret data: `known.with_known` sets it, and steps that are not ours lose it;
- of a ``Pipeline``, ``streamsketch_secret``: where its secret comes from (`runs.configure_run`, `runs.use_secret`),
  ``streamsketch_clock``: what advances its watermark (`streams.lateness.agree_on_clock`), and
  ``streamsketch_contributes``: that it contributes to a round (`release.contribute`).

`steps.Step` lists few of its methods, as Beam searches all of them several times for each step of a pipeline.
"""
