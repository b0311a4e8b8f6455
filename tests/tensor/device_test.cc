#include "trireme/tensor/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace trireme {
namespace {

TEST(Buffer, KeepsTheOwnerOfWrappedMemoryAlive) {
  auto owner = std::make_shared<std::vector<std::byte>>(64);
  const std::weak_ptr<std::vector<std::byte>> watch = owner;
  Buffer part = Buffer::wrap(cpu_device(), owner->data(), 64, owner).slice(16, 8);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(part.data(), watch.lock()->data() + 16);
  EXPECT_EQ(part.size_bytes(), 8U);
  part = Buffer();
  EXPECT_TRUE(watch.expired());
}

TEST(Buffer, SlicesOutsideAreBrokenInvariants) {
  const Buffer b = *cpu_device().allocate(16);
  EXPECT_EQ(b.slice(16, 0).size_bytes(), 0U);
  EXPECT_DEATH((void)b.slice(8, 9), "slice of 9 bytes at 8");
}

TEST(Device, CopiesHostMemory) {
  const Buffer a = *cpu_device().allocate(16), b = *cpu_device().allocate(16);
  std::memset(a.data(), 5, 16);
  std::memset(b.data(), 0, 16);
  const auto stream = cpu_device().make_stream();
  ASSERT_TRUE(cpu_device().copy(a, b, stream.get()).ok());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), 16), 0);
  EXPECT_EQ(stream->record(), nullptr);
  EXPECT_EQ(cpu_device().copy(a, b.slice(0, 8), nullptr).code(), Code::kInvalid);
}

TEST(Device, CopiesWithPhantomsDoNothing) {
  const Buffer real = *cpu_device().allocate(4);
  const Buffer phantom = *phantom_device().allocate(4);
  std::memset(real.data(), 7, 4);
  EXPECT_TRUE(phantom.is_phantom());
  EXPECT_TRUE(cpu_device().copy(phantom, real, nullptr).ok());
  EXPECT_EQ(real.data()[3], std::byte{7});
  EXPECT_TRUE(phantom.slice(1, 2).is_phantom());
  EXPECT_FALSE(cpu_device().copy(phantom, real.slice(0, 2), nullptr).ok());
}

TEST(Device, SaysWhenMemoryIsUsedUp) {
  const auto r = cpu_device().allocate(std::size_t{1} << 60);
  EXPECT_EQ(r.status().code(), Code::kExhausted);
}

}  // namespace
}  // namespace trireme
