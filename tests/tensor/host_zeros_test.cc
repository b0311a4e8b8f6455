#include "trireme/tensor/host_zeros.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

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

// Pages that are in memory, of those that lie in [first, first + bytes).
std::size_t resident_bytes(std::byte* first, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  std::byte* const begin = first + (kPage - reinterpret_cast<std::uintptr_t>(first) % kPage) % kPage;
  const std::size_t pages = static_cast<std::size_t>(first + bytes - begin) / kPage;
  std::vector<unsigned char> there(pages);
  EXPECT_EQ(::mincore(begin, pages * kPage, there.data()), 0);
  return kPage * static_cast<std::size_t>(
                     std::count_if(there.begin(), there.end(), [](auto p) { return (p & 1U) != 0; }));
}

TEST(HostZeros, ThatAreGivenBackTakeNoMemoryUntilTheyAreWrittenAgain) {
  constexpr std::size_t kBytes = 4U << 20U, kBegin = 12345, kGiven = 3U << 20U;
  auto buffer = *allocate_host_zeros(kBytes);
  std::fill(buffer.data(), buffer.data() + kBytes, std::byte{7});
  EXPECT_GE(resident_bytes(buffer.data(), kBytes), kBytes - 8192);
  give_back_pages(buffer.data() + kBegin, kGiven);
  EXPECT_LE(resident_bytes(buffer.data(), kBytes), kBytes - kGiven + 8192);
  for (std::size_t i = 0; i < kBytes; ++i)
    ASSERT_EQ(buffer.data()[i], (i >= kBegin && i < kBegin + kGiven ? std::byte{0} : std::byte{7})) << i;
  give_back_pages(buffer.data() + 1, 2);  // few bytes
  EXPECT_EQ(buffer.data()[0], std::byte{7});
  EXPECT_EQ(buffer.data()[2], std::byte{0});
  EXPECT_EQ(buffer.data()[3], std::byte{7});
  give_back_pages(nullptr, 0);
}

}  // namespace
}  // namespace trireme
