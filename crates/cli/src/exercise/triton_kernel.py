"""Prints the kernel of an exercise in Triton: its name and shared memory, its launch, its plan, its PTX."""

import importlib.util
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

spec = importlib.util.spec_from_file_location("exercise", sys.argv[1])
exercise = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exercise)
kernel = exercise.solution
*arrays, n = [p.name for p in kernel.params if not p.is_constexpr]
constants = {p.name: p.default for p in kernel.params if p.is_constexpr}
signature = {p.name: "constexpr" for p in kernel.params} | {name: "*fp32" for name in arrays} | {n: "i32"}
# Buffers begin at multiples of 16 bytes.
aligned = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(kernel.params) if p.name in arrays}
warps = getattr(exercise, "NUM_WARPS", 4)
built = triton.compile(ASTSource(kernel, signature, constants, aligned), GPUTarget("cuda", 90, 32), {"num_warps": warps})
print(built.metadata.name, built.metadata.shared)
print(list(exercise.GRID))
print([32 * warps, 1, 1])
print(getattr(exercise, "PLAN", "").replace("\n", ";"))
print(built.asm["ptx"])
