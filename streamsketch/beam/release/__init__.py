"""Outputs of a job: releases with noise, signs, contributions to rounds, selected keys, means."""
