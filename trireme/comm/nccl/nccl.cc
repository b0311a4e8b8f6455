#include "trireme/comm/nccl/nccl.h"

#include <algorithm>
#include <utility>

namespace trireme::comm {

using runtime::Task;

namespace {

constexpr TimeNs kSlowestByte = 10;  // 100 MB/s
constexpr TimeNs kFirstPause = 5 * kMicro, kLongestPause = 200 * kMicro;

int reduction_number(collective::Reduction reduction) {
  switch (reduction) {
    case collective::Reduction::kSum:
      return 0;
    case collective::Reduction::kMax:
      return 2;
    case collective::Reduction::kMin:
      return 3;
    case collective::Reduction::kMean:
      return 4;
  }
  return 0;
}

std::size_t count_of(const Tensor& t) { return static_cast<std::size_t>(t.shape().num_elems()); }

}  // namespace

Nccl::Nccl(runtime::Runtime& rt, std::shared_ptr<const NcclLibrary> library, NcclQueue& queue,
           NcclOptions options)
    : rt_(rt), lib_(std::move(library)), queue_(queue), options_(std::move(options)) {}

Nccl::~Nccl() {
  if (comm_ == nullptr) return;
  queue_.enter();
  (void)lib_->ncclCommAbort(comm_);
}

Result<NcclId> Nccl::make_id(const NcclLibrary& library) {
  NcclId id;
  const NcclResult made = library.ncclGetUniqueId(&id);
  if (made != NcclResult::kSuccess) return library.failure(made, nullptr, "making an id");
  return id;
}

Task<Result<std::unique_ptr<Nccl>>> Nccl::connect(runtime::Runtime& rt,
                                                  std::shared_ptr<const NcclLibrary> library, NcclId id,
                                                  NcclQueue& queue, NcclOptions options) {
  std::unique_ptr<Nccl> out(new Nccl(rt, std::move(library), queue, std::move(options)));
  Nccl* const n = out.get();
  Start start = [n, id] {
    NcclConfig config;
    return n->lib_->ncclCommInitRankConfig(&n->comm_, n->options_.world, id, n->options_.rank, &config);
  };
  std::string operation = "connecting";
  Status connected = co_await n->run(std::move(operation), std::move(start), 0, false);
  if (!connected.ok()) co_return connected;
  co_return out;
}

std::string Nccl::who(const std::string& operation) const {
  return fmt::format("rank {} of {}, {}", options_.rank, options_.world, operation);
}

Task<void> Nccl::abort(Status why) {
  failure_ = std::move(why);
  NcclComm* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) co_return;
  // It waits for kernels that are on their way out; the loop goes on meanwhile.
  runtime::ComputeFn end = [lib = lib_, comm, queue = &queue_](runtime::ComputeContext&) {
    queue->enter();
    (void)lib->ncclCommAbort(comm);
  };
  const cost::OpCost work{.flops = 1e5, .bytes = 1e5};
  co_await rt_.compute(work, std::move(end), 1, "abort NCCL");
}

// One look at a call under way.
Status Nccl::look(const std::string& operation, bool on_stream, std::shared_ptr<Event>& end, bool& ended) {
  NcclResult state = NcclResult::kSuccess;
  const NcclResult asked = lib_->ncclCommGetAsyncError(comm_, &state);
  if (asked != NcclResult::kSuccess) return lib_->failure(asked, comm_, who(operation));
  if (state == NcclResult::kInProgress) return {};
  if (state != NcclResult::kSuccess) return lib_->failure(state, comm_, who(operation));
  if (on_stream && end == nullptr) end = queue_.record();
  ended = !on_stream || end == nullptr || end->is_ready();
  if (ended && on_stream) return queue_.finish().with_prefix(fmt::format("[nccl] {}: ", who(operation)));
  return {};
}

Task<Status> Nccl::wait(std::string operation, std::size_t bytes, bool on_stream) {
  const TimeNs limit = rt_.now() + options_.deadline + static_cast<TimeNs>(bytes) * kSlowestByte;
  std::shared_ptr<Event> end;
  for (TimeNs pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    bool ended = false;
    TR_CO_RETURN_IF_ERROR(look(operation, on_stream, end, ended));
    if (ended) co_return Status();
    if (options_.verdict != nullptr) TR_CO_RETURN_IF_ERROR(options_.verdict());
    if (rt_.now() >= limit)
      co_return error(Code::kDeadline,
                      "[nccl] {}: not ended after {} ms, and nobody was reported lost; look at the other "
                      "ranks' logs, set NCCL_DEBUG=INFO, or set parallel.device_collectives=staged",
                      who(operation), options_.deadline / kMilli);
    co_await rt_.sleep_for(pause);
  }
}

Task<Status> Nccl::run(std::string operation, Start start, std::size_t bytes, bool on_stream) {
  if (!failure_.ok()) co_return failure_;
  queue_.enter();
  const NcclResult started = start();
  Status status;
  if (started != NcclResult::kSuccess && started != NcclResult::kInProgress)
    status = lib_->failure(started, comm_, who(operation));
  else
    status = co_await wait(std::move(operation), bytes, on_stream);
  if (!status.ok()) co_await abort(status);
  co_return status;
}

Task<Status> Nccl::all_reduce(std::string label, Tensor data, collective::Reduction reduction) {
  TR_CO_ASSIGN_OR_RETURN(const int dtype, nccl_dtype(data.dtype()));
  Start start = [this, data, dtype, reduction] {
    return lib_->ncclAllReduce(data.raw(), data.raw(), count_of(data), dtype, reduction_number(reduction),
                               comm_, queue_.stream());
  };
  co_return co_await run("allreduce " + std::move(label), std::move(start), data.type().num_bytes());
}

Task<Status> Nccl::reduce_scatter(std::string label, Tensor in, Tensor out) {
  TR_CO_ASSIGN_OR_RETURN(const int dtype, nccl_dtype(in.dtype()));
  if (count_of(in) != count_of(out) * static_cast<std::size_t>(options_.world))
    co_return error(Code::kInvalid, "[nccl] reduce-scatter {}: got {} elements for {} ranks of {} each",
                    label, count_of(in), options_.world, count_of(out));
  Start start = [this, in, out, dtype] {
    return lib_->ncclReduceScatter(in.raw(), out.raw(), count_of(out), dtype, 0, comm_, queue_.stream());
  };
  co_return co_await run("reduce-scatter " + std::move(label), std::move(start), in.type().num_bytes());
}

Task<Status> Nccl::all_gather(std::string label, Tensor in, Tensor out) {
  TR_CO_ASSIGN_OR_RETURN(const int dtype, nccl_dtype(in.dtype()));
  if (count_of(out) != count_of(in) * static_cast<std::size_t>(options_.world))
    co_return error(Code::kInvalid, "[nccl] allgather {}: got {} elements for {} ranks of {} each", label,
                    count_of(out), options_.world, count_of(in));
  Start start = [this, in, out, dtype] {
    return lib_->ncclAllGather(in.raw(), out.raw(), count_of(in), dtype, comm_, queue_.stream());
  };
  co_return co_await run("allgather " + std::move(label), std::move(start), out.type().num_bytes());
}

Task<Status> Nccl::broadcast(std::string label, Tensor data, int root) {
  TR_CO_ASSIGN_OR_RETURN(const int dtype, nccl_dtype(data.dtype()));
  Start start = [this, data, dtype, root] {
    return lib_->ncclBroadcast(data.raw(), data.raw(), count_of(data), dtype, root, comm_, queue_.stream());
  };
  co_return co_await run("broadcast " + std::move(label), std::move(start), data.type().num_bytes());
}

Task<Status> Nccl::exchange(std::string label, std::vector<Message> sends, std::vector<Message> recvs) {
  std::size_t bytes = 0;
  for (const auto* list : {&sends, &recvs})
    for (const Message& m : *list) {
      TR_CO_RETURN_IF_ERROR(nccl_dtype(m.data.dtype()).status());
      bytes += m.data.type().num_bytes();
    }
  Start start = [this, &sends, &recvs] {
    NcclResult first = lib_->ncclGroupStart();
    const auto note = [&first](NcclResult r) {
      if (first == NcclResult::kSuccess || first == NcclResult::kInProgress) first = r;
    };
    for (const Message& m : sends)
      note(lib_->ncclSend(m.data.raw(), count_of(m.data), *nccl_dtype(m.data.dtype()), m.peer, comm_,
                          queue_.stream()));
    for (const Message& m : recvs)
      note(lib_->ncclRecv(m.data.raw(), count_of(m.data), *nccl_dtype(m.data.dtype()), m.peer, comm_,
                          queue_.stream()));
    note(lib_->ncclGroupEnd());
    return first;
  };
  co_return co_await run("exchange " + std::move(label), std::move(start), bytes);
}

Task<Status> Nccl::close() {
  if (comm_ == nullptr) co_return failure_;
  Start start = [this] { return lib_->ncclCommFinalize(comm_); };
  std::string operation = "closing";
  TR_CO_RETURN_IF_ERROR(co_await run(std::move(operation), std::move(start), 0, false));
  NcclComm* const comm = std::exchange(comm_, nullptr);
  failure_ = Status(Code::kInvalid, "[nccl] the communicator is closed: expected no call after close()");
  const NcclResult gone = lib_->ncclCommDestroy(comm);
  if (gone != NcclResult::kSuccess) co_return lib_->failure(gone, nullptr, who("closing"));
  co_return Status();
}

}  // namespace trireme::comm
