"""The simulated NPU: executes adapter-dialect kernels on the CPU with cores, pipes, flags and hazards."""
