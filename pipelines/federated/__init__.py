"""Federated learning of hospitals with Flower and NVIDIA FLARE: who is alike, and updates that are private."""
