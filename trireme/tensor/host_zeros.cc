#include "trireme/tensor/host_zeros.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "trireme/tensor/host_memory.h"

namespace trireme {
namespace {
constexpr std::size_t kPage = 4096;
constexpr std::size_t kWorthIt = 1U << 20, kWorthGiving = 1U << 16;  // bytes

// Zeros `bytes` at `first`. Whole pages are dropped: private ones are read as zeros after that (madvise(2)).
void clear(std::byte* first, std::size_t bytes, std::size_t worth_it) {
  std::byte* const end = first + bytes;
  const auto past = reinterpret_cast<std::uintptr_t>(first) % kPage;
  std::byte* const pages = first + (past == 0 ? 0 : kPage - past);
  const std::size_t whole = bytes < worth_it ? 0 : static_cast<std::size_t>(end - pages) / kPage * kPage;
  // What is mapped of a shared file stays in it until it is cut out; private memory refuses that.
  const auto drop = [&] {
    return ::madvise(pages, whole, MADV_REMOVE) == 0 || ::madvise(pages, whole, MADV_DONTNEED) == 0;
  };
  if (whole == 0 || !drop()) {
    std::memset(first, 0, bytes);
    return;
  }
  std::fill(first, pages, std::byte{0});
  std::fill(pages + whole, end, std::byte{0});
}
}  // namespace

Result<Buffer> allocate_host_zeros(std::size_t bytes) {
  TR_ASSIGN_OR_RETURN(Buffer buffer, cpu_device().allocate(bytes));
  if (bytes > 0) clear(buffer.data(), bytes, kWorthIt);
  return buffer;
}

void give_back_pages(std::byte* first, std::size_t bytes) {
  if (bytes > 0) clear(first, bytes, kWorthGiving);
}

void GivenPages::give_back(std::byte* first, std::size_t bytes) {
  give_back_pages(first, bytes);
  leave(bytes);
}

void GivenPages::leave(std::size_t bytes) {
  bytes_ += bytes;
  count_off(bytes);
}

void GivenPages::take_again() { count_again(std::exchange(bytes_, 0)); }

void prefer_large_pages(std::byte* first, std::size_t bytes) {
  const auto past = reinterpret_cast<std::uintptr_t>(first) % kPage;
  std::byte* const page = first - past;
  // Without them it is only slower.
  if (bytes >= kWorthIt) (void)::madvise(page, bytes + past, MADV_HUGEPAGE);
}

Result<Tensor> allocate_zeros(Device& device, const TensorType& type) {
  if (&device == &cpu_device()) {
    TR_ASSIGN_OR_RETURN(Buffer zeros, allocate_host_zeros(type.num_bytes()));
    return Tensor(std::move(zeros), type);
  }
  TR_ASSIGN_OR_RETURN(Tensor t, Tensor::allocate(device, type));
  if (t.raw() != nullptr) std::memset(t.raw(), 0, type.num_bytes());
  return t;
}

}  // namespace trireme
