// The kernels of optimiser steps, as texts. Internal to update.cc.
#pragma once

namespace trireme::kernel::cuda {

// Numbers that round after every operation, then the loops around an op's text.
extern const char* const kNumberText;
extern const char* const kStepText;
// One per op (running: both averages); the scalars that each takes are said there.
extern const char *const kSgdText,
    *const kMomentumText, *const kAdagradText, *const kRmspropText, *const kAdamText, *const kRunningText,
                                                                                          *const kLarsText;

}  // namespace trireme::kernel::cuda
