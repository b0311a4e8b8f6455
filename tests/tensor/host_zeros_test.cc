#include "trireme/tensor/host_zeros.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "trireme/tensor/host_memory.h"

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

// As much as is resident of memory that several processes may have mapped.
TEST(HostZeros, OfASharedFileAreGivenBackToo) {
  constexpr std::size_t kBytes = 1U << 20U;
  const int fd = ::memfd_create("host_zeros_test", 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, kBytes), 0);
  auto* const at =
      static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  std::fill(at, at + kBytes, std::byte{7});
  give_back_pages(at + 4096, kBytes - 8192);
  EXPECT_EQ(resident_bytes(at, kBytes), 8192U);
  EXPECT_EQ(at[kBytes / 2], std::byte{0});
  EXPECT_EQ(at[0], std::byte{7});
  ::munmap(at, kBytes);
  ::close(fd);
}

TEST(GivenPages, AreNotCountedUntilTheyAreTakenAgain) {
  constexpr std::size_t kBytes = 1U << 20U;
  const std::int64_t before = host_memory().live_bytes;
  {
    auto buffer = *allocate_host_zeros(4 * kBytes);
    GivenPages given;
    EXPECT_TRUE(given.is_empty());
    given.leave(kBytes);
    EXPECT_EQ(host_memory().live_bytes - before, 3 * kBytes);
    given.give_back(buffer.data() + kBytes, kBytes);
    EXPECT_EQ(host_memory().live_bytes - before, 2 * kBytes);
    restart_host_peak();
    given.take_again();
    EXPECT_EQ(host_memory().live_bytes - before, 4 * kBytes);
    EXPECT_EQ(host_memory().peak_bytes - before, 4 * kBytes);
    given.give_back(buffer.data(), 4 * kBytes);
    EXPECT_EQ(host_memory().live_bytes, before);
    const GivenPages moved = std::move(given);
    EXPECT_FALSE(moved.is_empty());
    EXPECT_EQ(host_memory().live_bytes, before);
  }
  EXPECT_EQ(host_memory().live_bytes, before);
}

}  // namespace
}  // namespace trireme
