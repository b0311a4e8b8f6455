#include "trireme/cost/assumed.h"

#include <gtest/gtest.h>

namespace trireme::cost {
namespace {

TEST(AssumeProcessor, CoresWithWideVectorsAreFasterThanTheDefault) {
  const double standard = MachineModel{}.flops_per_second_per_core;
  for (const int bits : {128, 256, 512}) {
    Rates rates;
    assume_processor(bits, rates);
    EXPECT_EQ(rates.machine.flops_per_second_per_core, bits == 512 ? 75e9 : standard) << bits;
    EXPECT_EQ(rates.comm.machine.flops_per_second_per_core, rates.machine.flops_per_second_per_core);
  }
}

}  // namespace
}  // namespace trireme::cost
