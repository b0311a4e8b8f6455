#include "trireme/measure/collective/rank.h"

#include <algorithm>

#include "trireme/comm/group.h"
#include "trireme/measure/collective/start_line.h"
#include "trireme/measure/collective/work.h"

namespace trireme::measure {
namespace {

using collective::Kind;
using runtime::Task;

constexpr TimeNs kArrival = 60 * kSecond;
constexpr TimeNs kMeeting = 60 * kSecond;  // a rank rewrites gigabytes before it comes
constexpr TimeNs kIdle = 3600 * kSecond;   // while other sides are measured

// The tensors of one kind of call. `in` holds what a rank gives, `out` what it gets; in place they are one.
class Measured {
 public:
  Measured(runtime::Runtime& rt, comm::Group& group, runtime::SharedSegment& page, bool shared_buffers)
      : rt_(rt), group_(group), line_(page, group.rank(), group.world()), shared_buffers_(shared_buffers) {}

  Task<Result<std::vector<TimeNs>>> measure(Work work);
  Task<Result<std::vector<TimeNs>>> cross(int count);
  void give_up() { line_.give_up(); }

 private:
  Status set_up(const Work& work);
  Result<Tensor> make_tensor(std::int64_t elems);
  void rewrite();
  Task<Status> call(const Work& work);
  Status check() const;
  bool is_root() const { return group_.rank() == 0; }
  Tensor block_of(const Tensor& all, int rank) const;

  runtime::Runtime& rt_;
  comm::Group& group_;
  StartLine line_;
  const bool shared_buffers_;
  Work setup_;
  bool ready_ = false;
  Tensor in_, out_;  // as the call takes them; out_ null: in place
  Tensor input_;     // what this rank rewrites
  std::uint32_t step_ = 0;
};

Result<Tensor> Measured::make_tensor(std::int64_t elems) {
  const TensorType type{DType::kF32, {elems}};
  return shared_buffers_ && elems > 0 ? group_.allocate(type) : Tensor::allocate(cpu_device(), type);
}

Tensor Measured::block_of(const Tensor& all, int rank) const {
  const std::int64_t elems = all.shape().num_elems() / group_.world();
  return all.slice(0, rank * elems, (rank + 1) * elems);
}

Status Measured::set_up(const Work& w) {
  if (ready_ && setup_.same_setup(w)) return {};
  ready_ = false;
  in_ = out_ = input_ = Tensor();  // first give back, then take
  setup_ = w;
  const std::int64_t block = w.elems / group_.world();
  const bool gathers = w.kind == Kind::kGather || w.kind == Kind::kAllgather;
  const bool rooted = w.kind == Kind::kGather || w.kind == Kind::kScatter;
  // Sizes of what a rank gives and gets.
  std::int64_t gives = gathers ? block : w.elems, gets = w.elems;
  if (w.kind == Kind::kScatter || w.kind == Kind::kReduceScatter) gets = block;
  if (w.kind == Kind::kGather && !is_root()) gets = 0;
  if (w.kind == Kind::kScatter && !is_root()) gives = 0;
  if (w.kind == Kind::kBarrier) gives = gets = 0;
  const bool one_tensor = w.in_place && (!rooted || is_root());
  if (one_tensor || w.kind == Kind::kBroadcast) {
    TR_ASSIGN_OR_RETURN(in_, make_tensor(std::max(gives, gets)));
    input_ = gathers ? block_of(in_, group_.rank()) : in_;
  } else {
    TR_ASSIGN_OR_RETURN(in_, make_tensor(gives));
    TR_ASSIGN_OR_RETURN(out_, make_tensor(gets));
    input_ = in_;
  }
  rewrite();
  ready_ = true;
  return {};
}

// The whole input, so that no side profits from data that was left in a cache of another rank.
void Measured::rewrite() {
  if (input_.shape().num_elems() == 0) return;
  const std::span<float> values = input_.values<float>();
  std::fill(values.begin(), values.end(), static_cast<float>(group_.rank() + 1));
}

Task<Status> Measured::call(const Work& w) {
  comm::Call call;
  call.step = ++step_;
  call.slot = 1;
  call.label = "bench";
  call.algorithm = w.algorithm;
  const bool one = out_.is_null();
  switch (w.kind) {
    case Kind::kAllreduce:
      return one ? group_.allreduce(std::move(call), in_) : group_.allreduce(std::move(call), in_, out_);
    case Kind::kReduce:
      return one ? group_.reduce(std::move(call), in_) : group_.reduce(std::move(call), in_, out_);
    case Kind::kBroadcast:
      return group_.broadcast(std::move(call), in_);
    case Kind::kGather:
      return group_.gather(std::move(call), one ? Tensor() : in_, one ? in_ : is_root() ? out_ : Tensor());
    case Kind::kScatter:
      return group_.scatter(std::move(call), is_root() ? in_ : Tensor(), one ? Tensor() : out_);
    case Kind::kAllgather:
      return group_.allgather(std::move(call), one ? Tensor() : in_, one ? in_ : out_);
    case Kind::kReduceScatter:
      return group_.reduce_scatter(std::move(call), in_, one ? Tensor() : out_);
    case Kind::kAllToAll:
      return group_.all_to_all(std::move(call), in_, one ? in_ : out_);
    default:
      return group_.barrier(std::move(call));
  }
}

// A rank's input is its number plus one everywhere, so sums and blocks are known.
Status Measured::check() const {
  const Kind kind = setup_.kind;
  if (kind == Kind::kBarrier || (kind == Kind::kReduce && !is_root()) ||
      (kind == Kind::kGather && !is_root()))
    return {};
  const int world = group_.world();
  const float sum = static_cast<float>(world * (world + 1) / 2);
  Tensor result = out_.is_null() ? in_ : out_;
  if (kind == Kind::kReduceScatter && out_.is_null()) result = block_of(in_, group_.rank());
  const std::span<const float> values = result.values<float>();
  const bool by_block = kind == Kind::kGather || kind == Kind::kAllgather || kind == Kind::kAllToAll;
  const std::size_t block = std::max<std::size_t>(1, values.size() / static_cast<std::size_t>(world));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float expected = by_block                         ? static_cast<float>(i / block + 1)
                           : collective::is_reduction(kind) ? sum
                                                            : 1.0F;
    if (values[i] != expected)
      return error(Code::kInternal, "[bench] {} is wrong at element {}: got {}, expected {}",
                   collective::kind_name(kind), i, values[i], expected);
  }
  return {};
}

Task<Result<std::vector<TimeNs>>> Measured::measure(Work work) {
  const bool fresh = !ready_ || !setup_.same_setup(work);
  TR_CO_RETURN_IF_ERROR(set_up(work));
  std::vector<TimeNs> times;
  times.reserve(static_cast<std::size_t>(work.calls));
  for (int i = fresh ? -work.warmup - 1 : -work.warmup; i < work.calls; ++i) {
    rewrite();
    TR_CO_RETURN_IF_ERROR(co_await line_.meet(rt_, work.crowded, rt_.now() + kMeeting));
    const TimeNs begin = rt_.now();
    Status status = co_await call(work);
    const TimeNs end = rt_.now();
    if (!status.ok()) co_return status;
    if (i >= 0) times.push_back(end - begin);
    if (fresh && i == -work.warmup - 1) TR_CO_RETURN_IF_ERROR(check());
  }
  TR_CO_RETURN_IF_ERROR(check());
  co_return times;
}

Task<Result<std::vector<TimeNs>>> Measured::cross(int count) {
  TR_CO_RETURN_IF_ERROR(co_await line_.meet(rt_, false, rt_.now() + kMeeting));
  const TimeNs begin = rt_.now();
  for (int i = 0; i < count; ++i) TR_CO_RETURN_IF_ERROR(co_await line_.meet(rt_, false, begin + kMeeting));
  co_return std::vector<TimeNs>(1, (rt_.now() - begin) / count);
}

Task<Result<std::unique_ptr<comm::Group>>> join(runtime::Runtime& rt, const RankOptions& options) {
  net::ConnectOptions connect = options.connect;
  auto transport = co_await net::connect_transport(rt, options.transport, connect);
  if (!transport.ok()) co_return transport.status();
  comm::GroupOptions group;
  group.epoch = connect.epoch;
  group.membership.epoch = connect.epoch;
  // A crowded machine may keep a rank from running for seconds; that is no failure here.
  group.membership.deadline = 30 * kSecond;
  group.membership.heartbeat = kSecond;
  group.membership.arrival = kArrival;
  group.spin_ns = options.spin_ns;
  co_return comm::make_group(rt, std::move(*transport), group);
}

Task<Status> answer(runtime::Runtime& rt, runtime::Stream& stream, LineReader& lines, Measured& measured) {
  for (;;) {
    Result<std::string> line = co_await lines.next(rt.now() + kIdle);
    if (!line.ok()) co_return line.status();
    if (*line == "quit") co_return Status();
    const std::optional<int> crossings = cross_from_line(*line);
    Result<Work> work = crossings ? Work() : work_from_line(*line);
    if (!work.ok()) co_return work.status();
    Task<Result<std::vector<TimeNs>>> task = crossings ? measured.cross(*crossings) : measured.measure(*work);
    Result<std::vector<TimeNs>> times = co_await std::move(task);
    if (!times.ok()) {
      measured.give_up();
      co_return times.status();
    }
    std::string reply = times_line(*times);
    TR_CO_RETURN_IF_ERROR(co_await write_line(stream, std::move(reply), rt.now() + kArrival));
  }
}

Task<Status> join_and_answer(runtime::Runtime& rt, runtime::Stream& stream, const RankOptions& options) {
  LineReader lines(stream);
  std::string hello = fmt::format("hello {}", options.connect.rank);
  TR_CO_RETURN_IF_ERROR(co_await write_line(stream, std::move(hello), rt.now() + kArrival));
  auto page = co_await stream.receive_segment(rt.now() + kArrival);
  if (!page.ok()) co_return page.status();
  auto group = co_await join(rt, options);
  if (!group.ok()) co_return group.status();
  TR_CO_RETURN_IF_ERROR(co_await write_line(stream, "ready", rt.now() + kArrival));
  Measured measured(rt, **group, **page, options.shared_buffers);
  Status status = co_await answer(rt, stream, lines, measured);
  if (status.ok()) co_return co_await (*group)->leave();
  (*group)->fail("bench", status.message());
  (void)co_await (*group)->leave();
  co_return status;
}

}  // namespace

Task<Status> serve_rank(runtime::Runtime& rt, RankOptions options) {
  auto stream = co_await rt.network().connect_local(options.driver, rt.now() + kArrival);
  if (!stream.ok()) co_return stream.status();
  Status status = co_await join_and_answer(rt, **stream, options);
  if (!status.ok()) {
    std::string line = "error " + status.message();
    (void)co_await write_line(**stream, std::move(line), rt.now() + kArrival);
  }
  co_return status;
}

}  // namespace trireme::measure
