// ServerLayout: which server keeps which part of which vector. Pure, the same on every rank.
//
// Large vectors are cut over all servers, those that would make pieces below `small_elems` into fewer; pieces
// and small vectors go to the server that has least. Every server's share differs from the mean by at most
// the size of one of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::server {

// A vector that servers keep. Cuts fall on multiples of `row` elements (the width of an embedding), counted
// from the start of a part; `parts` are the tensors in it, which update rules may want whole.
struct Key {
  struct Part {
    std::string name;
    std::int64_t offset = 0, count = 0;  // elements
    std::int64_t row = 1;
    bool whole = false;  // not to be cut
  };
  std::string name;
  std::int64_t num_elems = 0;
  // Ascending, disjoint; what lies between is not kept, except for alignment. None: the whole is one part of
  // the key's name.
  std::vector<Part> parts;
};
// Parts that are no further apart lie in one slice, and what is between them travels along.
inline constexpr std::int64_t kAlignmentGap = 64;
std::vector<Key::Part> parts_of(const Key& key);

struct Slice {
  std::uint32_t id = 0;  // position in ServerLayout::slices
  std::uint32_t key = 0;
  std::int64_t begin = 0, end = 0;  // elements of the key
  int server = 0;
};

struct ServerLayout {
  int num_servers = 0;
  std::vector<Slice> slices;  // by key, then begin
};

// `small_elems`: no piece that a cut makes has fewer elements, except where rows want it; the default is 64
// KiB of f32, which takes a link of 10 Gbit/s about as long as a message takes to be dealt with. kInvalid: no
// servers, or parts that overlap or hold no whole rows.
Result<ServerLayout> make_layout(std::span<const Key> keys, int num_servers,
                                 std::int64_t small_elems = 16384);

// Per slice which of `num_workers` workers sends its first values: the largest slices first, each by the
// worker that has least to send.
std::vector<int> first_senders(const ServerLayout& layout, int num_workers);

}  // namespace trireme::server
