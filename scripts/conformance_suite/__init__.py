"""The dialect's own examples and tests as a conformance suite of the simulated NPU."""
