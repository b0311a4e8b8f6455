#include "trireme/tensor/host_zeros.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

TEST(HostZeros, AreAlignedAndZero) {
  EXPECT_EQ(allocate_host_zeros(0)->size_bytes(), 0U);
  { std::vector<std::byte> used(5U << 20U, std::byte{7}); }  // what the next ones may get
  for (const std::size_t bytes : {1U, 63U, 4097U, (1U << 20U) + 4097U, 3U << 20U}) {
    const auto zeros = allocate_host_zeros(bytes);
    ASSERT_TRUE(zeros.ok()) << zeros.status().to_string();
    EXPECT_EQ(zeros->size_bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(zeros->data()) % 64, 0U);
    const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
    EXPECT_TRUE(std::all_of(zeros->data(), zeros->data() + bytes, is_zero));
  }
  EXPECT_EQ(allocate_host_zeros(SIZE_MAX / 2).status().code(), Code::kExhausted);
}

}  // namespace
}  // namespace trireme
