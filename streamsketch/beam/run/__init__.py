"""What every job rests on: a run's secret, noise drawn once, claims on outputs, charges, order, coders."""
