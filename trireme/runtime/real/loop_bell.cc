#include "trireme/runtime/real/loop_bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace trireme::runtime::real {

namespace {
constexpr std::size_t kPageBytes = 4096;
}  // namespace

Result<std::unique_ptr<LoopBell>> LoopBell::make() {
  Fd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return system_error("network", "create a doorbell", errno);
  TR_ASSIGN_OR_RETURN(Fd page, make_memory_file("trireme-doorbell", kPageBytes));
  return from_fds(std::move(event), std::move(page));
}

Result<std::unique_ptr<LoopBell>> LoopBell::from_fds(Fd event, Fd page) {
  TR_RETURN_IF_ERROR(check_memory_file(page, kPageBytes));
  std::unique_ptr<LoopBell> bell(new LoopBell);
  TR_ASSIGN_OR_RETURN(bell->mapping_, Mapping::of(page, kPageBytes));
  bell->event_ = std::move(event);
  bell->page_ = std::move(page);
  // Not constructed here: the page starts as zeroes, and other processes already use the word.
  bell->armed_ = std::launder(reinterpret_cast<ArmedWord*>(bell->mapping_.data()));
  return bell;
}

Result<std::unique_ptr<LoopBell>> LoopBell::duplicate() const {
  Fd event = event_.duplicate(), page = page_.duplicate();
  if (!event || !page) return system_error("network", "create a doorbell", errno);
  return from_fds(std::move(event), std::move(page));
}

// Fails only when the counter is full, and then the loop has been signalled anyway.
void LoopBell::signal() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

}  // namespace trireme::runtime::real
