// Direct where everybody's tensors lie in the window.
#include <algorithm>

#include "trireme/comm/copy.h"
#include "trireme/comm/direct.h"
#include "trireme/comm/direct_layout.h"

namespace trireme::comm {
namespace {

// In place, added at a time: the lines of the next stretch are fetched for writing meanwhile.
constexpr std::int64_t kStretchBytes = 4 << 10;

}  // namespace

std::uint64_t Direct::offset_of(const std::byte* at, std::int64_t bytes) const {
  const std::byte* own = window_.peer(rank_);
  if (at == nullptr || at < own || at + bytes > own + window_.bytes()) return kElsewhere;
  return static_cast<std::uint64_t>(at - own);
}

bool Direct::is_in_window(std::uint64_t offset, std::int64_t bytes) const {
  const auto needed = static_cast<std::uint64_t>(bytes);
  return offset < window_.bytes() && needed <= window_.bytes() - offset;
}

bool Direct::advance_in_place(Lane& l, std::int64_t budget_bytes) {
  if (l.added == 0) {
    const std::int64_t stretch = kStretchBytes / l.call.elem_bytes;
    std::int64_t left = rt_.is_virtual() ? INT64_MAX : budget_bytes;
    for (; l.next < l.end && left > 0; left -= kStretchBytes * l.world())
      add_in_place(l, std::min(stretch, l.end - l.next));
    if (l.next < l.end) return false;
    l.added = 1;
    memory(l, l.me).summed().store(l.number_of(1), std::memory_order_release);
    // With own_chunk nobody waits for it.
    if (!l.call.own_chunk) wake_others(l, Mark::summed, l.number_of(1));
  }
  // Everybody has written this rank's result and read its input.
  if (!l.call.own_chunk && !everybody_reached(l, Mark::summed, l.number_of(1))) return false;
  ++l.blocks_before;
  return true;
}

void Direct::add_in_place(Lane& l, std::int64_t count) {
  const std::int64_t eb = l.call.elem_bytes, at = l.next * eb, bytes = count * eb;
  const std::int64_t ahead = std::min(bytes, (l.end - l.next) * eb - bytes);
  for (int p = 0; p < l.world(); ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (p == l.me) {
      inputs_[i] = l.call.in + at;
      outputs_[i] = l.call.out + at;
      continue;
    }
    const LaneMemory theirs = memory(l, p);
    const CallHeader& header = theirs.header(l.number);
    inputs_[i] = l.windows[i] + header.in_at + at;
    if (l.call.own_chunk) continue;
    outputs_[i] = l.windows[i] + header.out_at + at;
    for (std::int64_t line = 0; line < ahead; line += static_cast<std::int64_t>(kLine))
      __builtin_prefetch(outputs_[i] + bytes + line, 1);
  }
  std::byte* out = outputs_[static_cast<std::size_t>(l.me)];
  const int first = l.me == 0 ? 1 : 0;
  const bool divide = l.call.divide_by > 0;
  l.call.order->run(l.call.combine, inputs_, out,
                    divide || l.call.own_chunk ? nullptr : outputs_[static_cast<std::size_t>(first)], count,
                    eb);
  if (divide) l.call.combine.scale(out, count, l.call.divide_by);
  l.next += count;
  if (l.call.own_chunk) return;
  for (int p = divide ? first : first + 1; p < l.world(); ++p)
    if (p != l.me) copy_bytes(outputs_[static_cast<std::size_t>(p)], out, static_cast<std::size_t>(bytes));
  bytes_laid_ += static_cast<std::uint64_t>(bytes * (l.world() - 1));
}

}  // namespace trireme::comm
