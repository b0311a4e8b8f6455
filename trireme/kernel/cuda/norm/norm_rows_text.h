// Texts of norm_rows.cc; behind batch_norm_text's own part, with kPack, kAcross.
#pragma once

namespace trireme::kernel::cuda {

extern const char* const kNormColumnsText;    // how the threads share the rows, first
extern const char* const kNormForwardText;    // column_sums, column_stats, column_apply
extern const char* const kNormGradText;       // the same
extern const char* const kNormInferenceText;  // column_apply

}  // namespace trireme::kernel::cuda
