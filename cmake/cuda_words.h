// CUDA C++ as the host's compiler understands it, for the check of .cu files: comes before each of them. Words and functions are
// those of the emulator; what its text.cc rewrites before it compiles is only skipped here.
#include "tests/gpu_emulator/words.h"

#undef __shared__
#define __shared__
#undef __align__
#define __align__(n) __attribute__((aligned(n)))
#define asm(...) ((void)0)
