// A kernel that does nothing, to be timed.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

#pragma text kNothingText
extern "C" __global__ void nothing() {}
