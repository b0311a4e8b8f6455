#include "trireme/server/layout.h"

#include <algorithm>
#include <numeric>

namespace trireme::server {
namespace {

// A stretch of a key that is kept: parts with nothing but alignment between them.
struct Run {
  std::uint32_t key = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

Status check_key(const Key& key) {
  std::int64_t end = 0;
  for (const Key::Part& p : key.parts) {
    if (p.offset < end || p.count < 1 || p.row < 1 || p.count % p.row != 0 ||
        p.count > key.num_elems - p.offset)
      return error(Code::kInvalid,
                   "[server] part '{}' of '{}': got elements [{}, {}) in rows of {}, expected whole rows in "
                   "[{}, {})",
                   p.name, key.name, p.offset, p.offset + p.count, p.row, end, key.num_elems);
    end = p.offset + p.count;
  }
  if (key.num_elems < 1)
    return error(Code::kInvalid, "[server] vector '{}' has {} elements", key.name, key.num_elems);
  return {};
}

std::vector<Run> runs_of(std::span<const Key> keys) {
  std::vector<Run> runs;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::vector<Key::Part> parts = parts_of(keys[k]);
    bool first = true;
    for (const Key::Part& p : parts) {
      if (first || p.offset - runs.back().end > kAlignmentGap)
        runs.push_back({static_cast<std::uint32_t>(k), p.offset, p.offset});
      runs.back().end = p.offset + p.count;
      first = false;
    }
  }
  return runs;
}

// The cut nearest to `wanted` that breaks no row and no part that is to stay whole.
std::int64_t allowed_cut(std::span<const Key::Part> parts, std::int64_t wanted) {
  for (const Key::Part& p : parts) {
    if (wanted >= p.offset + p.count) continue;
    if (wanted <= p.offset) return p.offset;
    const std::int64_t grain = p.whole ? p.count : p.row;
    return p.offset + (wanted - p.offset + grain / 2) / grain * grain;
  }
  return wanted;
}

class Shares {
 public:
  explicit Shares(int num_servers) : elems_(static_cast<std::size_t>(num_servers)) {}
  // The server that has least.
  int lightest() const {
    return static_cast<int>(std::min_element(elems_.begin(), elems_.end()) - elems_.begin());
  }
  std::vector<int> by_share() const {
    std::vector<int> order(elems_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return elems_[static_cast<std::size_t>(a)] < elems_[static_cast<std::size_t>(b)];
    });
    return order;
  }
  void add(int server, std::int64_t elems) { elems_[static_cast<std::size_t>(server)] += elems; }

 private:
  std::vector<std::int64_t> elems_;
};

// At most so many pieces, as even as rows allow.
std::vector<Run> cut(const Run& run, std::span<const Key::Part> parts, std::int64_t num_pieces) {
  std::vector<Run> pieces;
  std::int64_t begin = run.begin;
  for (std::int64_t i = 1; i <= num_pieces; ++i) {
    const std::int64_t wanted = run.begin + run.size() * i / num_pieces;
    const std::int64_t end =
        i == num_pieces ? run.end : std::clamp(allowed_cut(parts, wanted), begin, run.end);
    if (end > begin) pieces.push_back({run.key, begin, end});
    begin = end;
  }
  return pieces;
}

void largest_first(std::vector<Run>& runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.size() > b.size(); });
}

// Each piece to another server, the largest to the one that has least.
void spread(std::vector<Run> pieces, Shares& shares, std::vector<Slice>& slices) {
  largest_first(pieces);
  const std::vector<int> servers = shares.by_share();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    shares.add(servers[i], pieces[i].size());
    slices.push_back({0, pieces[i].key, pieces[i].begin, pieces[i].end, servers[i]});
  }
}

}  // namespace

std::vector<Key::Part> parts_of(const Key& key) {
  if (!key.parts.empty()) return key.parts;
  return {{key.name, 0, key.num_elems, 1, false}};
}

Result<ServerLayout> make_layout(std::span<const Key> keys, int num_servers, std::int64_t small_elems) {
  if (num_servers < 1)
    return error(Code::kInvalid, "[server] servers: got {}, expected at least 1", num_servers);
  for (const Key& key : keys) TR_RETURN_IF_ERROR(check_key(key));
  ServerLayout layout;
  layout.num_servers = num_servers;
  Shares shares(num_servers);
  std::vector<Run> small;
  for (const Run& run : runs_of(keys)) {
    const std::int64_t num_pieces =
        std::clamp<std::int64_t>(run.size() / std::max<std::int64_t>(small_elems, 1), 1, num_servers);
    std::vector<Run> pieces = cut(run, parts_of(keys[run.key]), num_pieces);
    if (num_pieces == num_servers) {
      spread(std::move(pieces), shares, layout.slices);
    } else {
      small.insert(small.end(), pieces.begin(), pieces.end());
    }
  }
  largest_first(small);
  for (const Run& run : small) {
    const int server = shares.lightest();
    shares.add(server, run.size());
    layout.slices.push_back({0, run.key, run.begin, run.end, server});
  }
  std::sort(layout.slices.begin(), layout.slices.end(), [](const Slice& a, const Slice& b) {
    return a.key != b.key ? a.key < b.key : a.begin < b.begin;
  });
  for (std::size_t i = 0; i < layout.slices.size(); ++i) layout.slices[i].id = static_cast<std::uint32_t>(i);
  return layout;
}

std::vector<int> first_senders(const ServerLayout& layout, int num_workers) {
  std::vector<Slice> slices = layout.slices;
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice& a, const Slice& b) { return a.end - a.begin > b.end - b.begin; });
  Shares shares(num_workers);
  std::vector<int> senders(slices.size());
  for (const Slice& slice : slices) {
    const int sender = shares.lightest();
    shares.add(sender, slice.end - slice.begin);
    senders[slice.id] = sender;
  }
  return senders;
}

}  // namespace trireme::server
