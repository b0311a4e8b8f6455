#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/sets.h"

namespace trireme::kernel::baseline {
#include "trireme/kernel/cpu/simd/set.inc"
}  // namespace trireme::kernel::baseline

namespace trireme::kernel {
const VectorLoops kBaselineLoops = TR_VECTOR_LOOPS(baseline);
const FunctionLoops kBaselineFunctions = TR_FUNCTION_LOOPS(baseline);
const RowLoops kBaselineRows = TR_ROW_LOOPS(baseline);
const UpdateLoops kBaselineUpdates = TR_UPDATE_LOOPS(baseline);
const CellSet kBaselineCells = TR_CELL_LOOPS(baseline);
const MiscLoops kBaselineMisc = TR_MISC_LOOPS(baseline);
const WinogradSet kBaselineWinograd = TR_WINOGRAD_SET(baseline);
const ChannelLoops kBaselineChannels = TR_CHANNEL_LOOPS(baseline);
}  // namespace trireme::kernel
