// Client: what a worker sees of the parameter servers: f32 vectors by key, which it pushes to and pulls from.
//
// All Tasks may overlap. push() ends when `values` may be used again, pull() when `into` is filled. A
// worker's clock counts its updates: it pushes every key once per clock (idempotent: the same (worker, clock,
// slice) again is counted and dropped), and tick() says that all keys of a clock were pushed. What a pull
// waits for is the servers' consistency rule (consistency/consistency.h).
#pragma once

#include <memory>
#include <span>

#include "trireme/comm/mailbox.h"
#include "trireme/server/vector_coder.h"

namespace trireme::server {

// What a server says with the values: how far it was when it read them.
struct Version {
  std::int64_t updates = 0;       // applied to the slice that has fewest
  std::int64_t oldest_clock = 0;  // every worker's pushes below this clock are in
};

struct PushNote {
  std::int64_t clock = 0;  // of this worker, from 0
  float learning_rate = 0;
  float scale = 1;             // the values are multiplied by it at the server
  std::int64_t based_on = -1;  // Version::updates of the pull the gradient was computed on; -1: unknown
};

// What a coded push takes along, and where a coded pull is in the warm-up.
struct CodedNote {
  std::int64_t exchange = 0;  // of this key, counted by the caller over all starts of the job
  std::uint64_t key = 0;      // of the random draws
  Tensor residual, velocity;  // f32, laid out as the key; null: none is kept
};

// Workers that have the same first values share the sending: all of them call init() for all keys, and each
// sends those slices that are its own to send (first_senders()).
struct InitShare {
  int worker = 0, num_workers = 1;
};

enum class ReadWhen : std::uint8_t { kBefore, kAfter };  // the update that the push makes

class Client {
 public:
  virtual ~Client() = default;
  // First values, by one worker or shared by several; pulls of others wait until they are there.
  virtual runtime::Task<Status> init(std::uint32_t key, Tensor values, InitShare share) = 0;
  runtime::Task<Status> init(std::uint32_t key, Tensor values) { return init(key, std::move(values), {}); }
  virtual runtime::Task<Status> push(std::uint32_t key, Tensor values, PushNote note) = 0;
  // As push(), in the codec of the link where it encodes this exchange. Residual and velocity are changed;
  // pushes of one key are packed and leave in the order of the calls.
  virtual runtime::Task<Status> push_coded(std::uint32_t key, Tensor values, PushNote note,
                                           CodedNote coded) = 0;
  // As push() of the products of `factors`, f32, laid out as the link's FactorKey says; the servers multiply.
  virtual runtime::Task<Status> push_factors(std::uint32_t key, Tensor factors, PushNote note) = 0;
  // `clock`: the one this worker is about to compute.
  virtual runtime::Task<Result<Version>> pull(std::uint32_t key, Tensor into, std::int64_t clock) = 0;
  // As pull(); where the link codes pulls, what comes is the coded difference to what this worker had from
  // its last pull_coded(), if that was after the last finish() and rejoin(), and whole values otherwise.
  virtual runtime::Task<Result<Version>> pull_coded(std::uint32_t key, Tensor into, std::int64_t clock,
                                                    std::int64_t exchange) = 0;
  // One message there, one back: the values as they are before or after this very update was applied. Not
  // held back by the consistency rule. `into` may be `values`.
  virtual runtime::Task<Result<Version>> push_pull(std::uint32_t key, Tensor values, Tensor into,
                                                   PushNote note, ReadWhen when) = 0;
  // Rows of a key whose part has `row` > 1: `rows` i64 [n], `values` f32 [n, row].
  virtual runtime::Task<Status> push_rows(std::uint32_t key, Tensor rows, Tensor values, PushNote note) = 0;
  virtual runtime::Task<Result<Version>> pull_rows(std::uint32_t key, Tensor rows, Tensor into,
                                                   std::int64_t clock) = 0;
  // All keys of `clock` were pushed; servers that hold pushes back by clocks count by it.
  virtual runtime::Task<Status> tick(std::int64_t clock) = 0;
  // This worker pushes no more: nobody waits for its clock. Ends when all servers know it and every push that
  // they have of this worker, and every held push that this frees, is applied or dropped.
  virtual runtime::Task<Status> finish() = 0;
  // After finish(): it pushes again, from `clock` on, and is waited for again. Ends when all servers know it.
  // Workers that meet (for an evaluation) finish before and rejoin after it at one common clock: who still
  // steps does not wait for those who are there already, and clocks that differ become equal.
  virtual runtime::Task<Status> rejoin(std::int64_t clock) = 0;
};

// The client of a worker, over its `mail`; server s is rank server_ranks[s]. `link` is what the servers have,
// and fits the layout (slice_coders(), slice_factors()).
std::unique_ptr<Client> make_client(runtime::Runtime& rt, comm::Mailbox& mail, std::vector<int> server_ranks,
                                    ServerLayout layout, std::vector<Key> keys, const LinkCoding& link = {});

}  // namespace trireme::server
