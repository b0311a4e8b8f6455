// What the sum of one bucket costs, for the rows of table.cc. Pure: used by plans before anything runs.
#pragma once

#include <string>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/cost/rates.h"

namespace trireme::comm {

struct SumShape {
  std::vector<collective::LeafRun> owners;  // of logical shards, per worker
  std::int32_t num_shards = 1;
  std::int64_t num_elems = 0;
  std::string collective = "fixed-tree";
  int threads = 1;  // of a shard
  // With a codec: about how long a shard's message is, and bytes moved to make or read one.
  double message_bytes = 0, code_bytes = 0;
  std::int64_t factor_elems = 0;  // of a shard's factors
  bool keeps = false;             // what encodings leave out
  // Above 0: of so many first elements a worker needs only its own part (comm::chunk_of).
  std::int64_t scattered = 0;
  int workers() const { return static_cast<int>(owners.size()); }
  std::int32_t most_shards() const;  // of one worker
};

struct SumPrice {
  double wire_seconds = 0;  // of the exchange
  double code_seconds = 0;  // of encoding and decoding, by the worker itself
  double add_seconds = 0;   // of the exchange, what adds on the worker's cores
  double bytes_sent = 0;    // by the busiest worker
  double seconds() const { return wire_seconds + code_seconds; }
};

// A sum over all workers of vectors as they are.
SumPrice dense_price(const SumShape& shape, std::int64_t num_elems, const cost::Rates& rates);
// Every worker gets the parts of all others (comm::chunk_of).
SumPrice parts_price(const SumShape& shape, std::int64_t num_elems, const cost::Rates& rates);
// Everybody gets `elems` floats for each shard of the others.
collective::Price gather_price(const SumShape& shape, std::int64_t elems, const cost::Rates& rates);
SumPrice gather_seconds(const SumShape& shape, const std::vector<std::int64_t>& turns,
                        const cost::Rates& rates);
// Floats that hold so many bytes.
std::int64_t floats(double bytes);
// Seconds in which a worker makes or reads so many messages.
double coding_seconds(const SumShape& shape, double messages, const cost::Rates& rates);

}  // namespace trireme::comm
