// Nccl: one communicator of NCCL, whose waits have deadlines.
//
// The communicator does not block: a call is handed over, then this rank looks again until the library and
// the stream have ended it, the deadline has passed, or the group has its verdict. Whatever goes wrong ends
// in ncclCommAbort, and every later call returns the first failure. The deadline is for ranks that are all
// there: meet (Group::barrier) before a call that others may come to late.
//
// On the loop of one Runtime; one call at a time, in the same order on every rank.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "trireme/collective/schedule.h"
#include "trireme/comm/nccl/library.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::comm {

// Work in order on a GPU.
class NcclQueue {
 public:
  virtual ~NcclQueue() = default;
  virtual void enter() = 0;                     // this thread works on the GPU from now on
  virtual void* stream() = 0;                   // CUstream
  virtual std::shared_ptr<Event> record() = 0;  // the end of what is enqueued so far
  virtual Status finish() = 0;                  // waits for all of it; the first failure of the GPU
};

struct NcclOptions {
  int rank = 0, world = 1;
  TimeNs deadline = 2 * kSecond;  // of a call, beyond what its bytes take at 100 MB/s
  // What the group says, asked while waiting; a failure ends the call with it. Null: nobody is asked.
  std::function<Status()> verdict = nullptr;
};

// Tensors are contiguous memory of the GPU; labels are for errors: "bucket 0, step 17".
class Nccl {
 public:
  static Result<NcclId> make_id(const NcclLibrary& library);  // one rank makes it and tells the others
  static runtime::Task<Result<std::unique_ptr<Nccl>>> connect(runtime::Runtime& rt,
                                                              std::shared_ptr<const NcclLibrary> library,
                                                              NcclId id, NcclQueue& queue,
                                                              NcclOptions options);
  ~Nccl();  // aborts what was not closed
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // In place; no mean of integers.
  runtime::Task<Status> all_reduce(std::string label, Tensor data, collective::Reduction reduction);
  // `in` has a block per rank, `out` gets this rank's of the sum.
  runtime::Task<Status> reduce_scatter(std::string label, Tensor in, Tensor out);
  runtime::Task<Status> all_gather(std::string label, Tensor in, Tensor out);
  runtime::Task<Status> broadcast(std::string label, Tensor data, int root);
  struct Message {
    int peer = 0;
    Tensor data;
  };
  // All at once, whatever the order on the other side.
  runtime::Task<Status> exchange(std::string label, std::vector<Message> sends, std::vector<Message> recvs);

  // Orderly end; everybody calls it. Later calls are refused.
  runtime::Task<Status> close();
  const Status& failure() const { return failure_; }
  void set_deadline(TimeNs deadline) { options_.deadline = deadline; }

 private:
  Nccl(runtime::Runtime& rt, std::shared_ptr<const NcclLibrary> library, NcclQueue& queue,
       NcclOptions options);
  using Start = std::function<NcclResult()>;
  runtime::Task<Status> run(std::string operation, Start start, std::size_t bytes, bool on_stream = true);
  runtime::Task<Status> wait(std::string operation, std::size_t bytes, bool on_stream);
  Status look(const std::string& operation, bool on_stream, std::shared_ptr<Event>& end, bool& ended);
  runtime::Task<void> abort(Status why);
  std::string who(const std::string& operation) const;

  runtime::Runtime& rt_;
  std::shared_ptr<const NcclLibrary> lib_;
  NcclQueue& queue_;
  NcclOptions options_;
  NcclComm* comm_ = nullptr;
  Status failure_;
};

}  // namespace trireme::comm
