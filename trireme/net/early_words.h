// Early words: what ranks tell each other over a transport before they are a group.
#pragma once

#include <vector>

#include "trireme/net/transport.h"

namespace trireme::net {

// Words of one rank 0, in this order, each once.
enum class EarlyWord : std::uint32_t { kStart = 0, kStartText = 1, kHosts = 2, kTiles = 3 };

// Rank 0 has what it says when it connects, so a word comes at once, or never: after 10 s the transport is
// poisoned and all of them fail.
//
// Rank 0's bytes to everybody. All ranks give the same number of bytes.
runtime::Task<Status> spread_from_first(runtime::Runtime& rt, Transport& transport, EarlyWord word,
                                        Bytes& bytes);
// Everybody's bytes, as many from each, at rank 0, by rank; empty on the others.
runtime::Task<Result<std::vector<Bytes>>> gather_at_first(runtime::Runtime& rt, Transport& transport,
                                                          EarlyWord word, Bytes own);

}  // namespace trireme::net
