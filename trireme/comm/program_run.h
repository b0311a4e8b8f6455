// ProgramRun: one RankProgram under way. An interpreter by dependency counters, driven by completions: no
// coroutine, no allocation and no event of its own per step.
//
// Small sums and copies (below kInlineBytes) are done on the loop at once; larger ones go to the compute
// pool. A real pool thread that sleeps takes some 60 us to wake, which the model of virtual time does not
// have: so the real limit is kRealInlineBytes (100 to 200 us of work). In virtual time the cost of the small
// ones is charged together when the program ends: they are on the critical path one after the other, so the
// sum is right and costs one event. Sends start in program order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/combine.h"
#include "trireme/comm/program_cache.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::comm {

inline constexpr std::int64_t kInlineBytes = 64 << 10, kRealInlineBytes = 1 << 20;

// A message's part: the iteration of its call, then the number of the message within the call.
inline constexpr int kPartBits = 16;

// Told by a run about itself, on the loop.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void on_run_computed(std::uint32_t run, std::uint32_t step) = 0;  // call computed()
};

// What a run is started with.
struct RunRequest {
  std::shared_ptr<const ReadyProgram> program;
  Tensor result;  // may be null (barrier)
  std::vector<Tensor> partials;
  std::int64_t elem_bytes = 4;
  int world = 1;               // of the (sub-)group
  Combine combine;             // for programs that reduce
  std::span<const int> ranks;  // of the sub-group, kept by `keep`; empty: the whole group
  std::shared_ptr<const void> keep;
  net::Identity id;  // its part is that of the call; each message adds its own number
  net::Fingerprint fingerprint;
  std::string operation;  // for errors
};

class ProgramRun {
 public:
  // `number` is this run's in cookies (high 32 bits; the low ones are the step) and calls of the listener.
  ProgramRun(runtime::Runtime& rt, net::Transport& transport, std::uint32_t number,
             net::Completion& completion, RunListener& listener)
      : rt_(rt), transport_(transport), number_(number), completion_(completion), listener_(listener) {}

  Status start(RunRequest request);    // kExhausted: no memory for scratch; nothing was started
  void completed(std::uint32_t step);  // a message went well
  // The first bytes of a message are there: what is to be added is added while it is in the caches.
  void arrived(std::uint32_t step, std::uint64_t bytes);
  void computed(std::uint32_t step);
  // Starts nothing more. What is under way still completes.
  void stop() { stopped_ = true; }
  void message_failed() { --num_outstanding_; }
  // Gives back what the caller owns; the run can be started anew.
  void release();
  // Scratch that it keeps for the next start, and what a program asks for.
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  static std::size_t scratch_needed(const RunRequest& request);

  bool is_finished() const { return num_done_ == num_steps() && num_outstanding_ == 0; }
  bool is_idle() const { return num_outstanding_ == 0; }
  const collective::Step& step(std::uint32_t i) const { return request_.program->program.steps[i]; }
  // The peer of a step, as the transport numbers it.
  int peer_of(const collective::Step& s) const {
    return request_.ranks.empty() ? s.peer : request_.ranks[static_cast<std::size_t>(s.peer)];
  }
  const std::string& operation() const { return request_.operation; }
  std::uint32_t number() const { return number_; }
  // The peer of the first message in program order that is still missing: a recv if there is one; -1: none.
  int waits_for();
  // Cost of the small sums and copies so far, to be charged by whoever ends the run in virtual time.
  cost::OpCost deferred_cost() const { return {deferred_bytes_ / 12, deferred_bytes_}; }
  void charge_started() { ++num_outstanding_; }
  void charge_ended() { --num_outstanding_, deferred_bytes_ = 0; }

 private:
  static constexpr std::uint16_t kReady = 0xFFFD, kIssued = 0xFFFE, kDone = 0xFFFF;

  std::size_t num_steps() const { return request_.program->program.steps.size(); }
  void begin(std::uint32_t step);
  void issue_sends();
  void compute(std::uint32_t step);
  void calculate(const collective::Step& s, std::int64_t from = 0) const;
  void done(std::uint32_t step);
  void pump();
  net::View view(const collective::Region& region, std::int64_t count) const;
  net::Identity identity(const collective::Step& s) const;
  std::uint64_t cookie(std::uint32_t step) const { return (std::uint64_t{number_} << 32) | step; }

  runtime::Runtime& rt_;
  net::Transport& transport_;
  const std::uint32_t number_;
  net::Completion& completion_;
  RunListener& listener_;

  RunRequest request_;
  std::vector<std::byte*> bases_;  // per buffer; null: phantom
  std::vector<Buffer> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::vector<std::uint16_t> waiting_;  // dependencies left, or a state
  std::vector<std::uint32_t> ready_;
  std::vector<std::int64_t> added_;  // per step: elements that arrived() has added; empty: none
  std::uint32_t next_send_ = 0, recv_cursor_ = 0, send_cursor_ = 0;
  std::size_t num_done_ = 0;
  std::size_t num_outstanding_ = 0;  // messages and computations
  double deferred_bytes_ = 0;
  bool stopped_ = false;
};

}  // namespace trireme::comm
