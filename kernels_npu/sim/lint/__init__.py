"""Static checks of the kernels that a file defines: nothing is executed.

`lint_file` runs a file's module level with kernel launches and tensors that carry no data, and
checks every kernel that comes into being. The rules are those of the front end, the passes and
the machine; the modules here collect kernels and add what only a look at the whole kernel shows.
"""

from __future__ import annotations

from kernels_npu.sim.lint.file import lint_file, python_files
from kernels_npu.sim.lint.kernel import lint_kernel
from kernels_npu.sim.lint.report import FileReport, KernelReport, worst

__all__ = ["FileReport", "KernelReport", "lint_file", "lint_kernel", "python_files", "worst"]
