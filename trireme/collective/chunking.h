// Chunking: `count` elements cut in consecutive chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trireme::collective {

struct Chunking {
  std::int64_t count = 0;
  int num_chunks = 1;
  // num_chunks + 1 offsets; none: chunks differ by at most one element, larger ones first.
  std::vector<std::int64_t> starts = {};

  static Chunking of_sizes(const std::vector<std::int64_t>& sizes) {
    Chunking c{0, static_cast<int>(sizes.size()), {0}};
    for (const std::int64_t size : sizes) c.starts.push_back(c.count += size);
    return c;
  }
  std::int64_t offset(int chunk) const {
    if (!starts.empty()) return starts[static_cast<std::size_t>(chunk)];
    const std::int64_t extra = count % num_chunks;
    return chunk * (count / num_chunks) + std::min<std::int64_t>(chunk, extra);
  }
  std::int64_t size(int chunk) const { return size(chunk, 1); }
  // The elements of `num` chunks from `first` on.
  std::int64_t size(int first, int num) const { return offset(first + num) - offset(first); }
  std::int64_t max_size() const {
    if (starts.empty()) return size(0);
    std::int64_t most = 0;
    for (int c = 0; c < num_chunks; ++c) most = std::max(most, size(c));
    return most;
  }
};

}  // namespace trireme::collective
