#include "trireme/comm/program_run.h"

#include <cstring>

namespace trireme::comm {
namespace {

using collective::Step;
using collective::StepKind;

}  // namespace

std::size_t ProgramRun::scratch_needed(const RunRequest& request) {
  std::size_t elems = 0;
  for (const std::int64_t n : request.program->program.scratch_elems) elems += static_cast<std::size_t>(n);
  return elems * static_cast<std::size_t>(request.elem_bytes);
}

Status ProgramRun::start(RunRequest request) {
  const bool phantom = rt_.is_phantom();
  const auto& program = request.program->program;
  // Kept from call to call, also over programs that need less: fresh memory costs a page fault per page.
  const std::size_t num_scratch = program.scratch_elems.size();
  if (scratch_.size() < num_scratch) scratch_.resize(num_scratch);
  for (std::size_t i = 0; i < num_scratch && !phantom; ++i) {
    const std::size_t bytes =
        static_cast<std::size_t>(program.scratch_elems[i]) * static_cast<std::size_t>(request.elem_bytes);
    if (scratch_[i].size_bytes() >= bytes) continue;
    scratch_bytes_ -= scratch_[i].size_bytes();
    scratch_[i] = Buffer();  // the old one goes before the new one comes
    TR_ASSIGN_OR_RETURN(scratch_[i], cpu_device().allocate(bytes));
    scratch_bytes_ += bytes;
  }
  request_ = std::move(request);
  bases_.clear();
  bases_.push_back(phantom || request_.result.is_null() ? nullptr : request_.result.raw());
  for (const Tensor& t : request_.partials) bases_.push_back(phantom ? nullptr : t.raw());
  for (std::size_t i = 0; i < num_scratch; ++i) bases_.push_back(phantom ? nullptr : scratch_[i].data());

  waiting_.resize(num_steps());
  for (std::size_t i = 0; i < num_steps(); ++i) waiting_[i] = program.steps[i].num_deps;
  next_send_ = recv_cursor_ = send_cursor_ = 0;
  num_done_ = num_outstanding_ = 0;
  deferred_bytes_ = 0;
  stopped_ = false;
  added_.clear();
  // The last one first: pump() takes from the end.
  ready_.assign(request_.program->roots.rbegin(), request_.program->roots.rend());
  pump();
  return {};
}

void ProgramRun::release() { request_ = {}; }

net::View ProgramRun::view(const collective::Region& region, std::int64_t count) const {
  std::byte* base = count > 0 ? bases_[static_cast<std::size_t>(region.buffer)] : nullptr;
  return {base ? base + region.offset * request_.elem_bytes : nullptr,
          static_cast<std::uint64_t>(count * request_.elem_bytes)};
}

net::Identity ProgramRun::identity(const Step& s) const {
  net::Identity id = request_.id;
  id.part += s.part;
  return id;
}

void ProgramRun::pump() {
  while (!ready_.empty() && !stopped_) {
    const std::uint32_t step = ready_.back();
    ready_.pop_back();
    begin(step);
  }
}

void ProgramRun::begin(std::uint32_t step) {
  const Step& s = this->step(step);
  if (s.kind == StepKind::kSend) {
    waiting_[step] = kReady;
    issue_sends();
  } else if (collective::is_recv(s.kind)) {
    waiting_[step] = kIssued;
    ++num_outstanding_;
    const auto& into = s.kind == StepKind::kRecv ? s.dst : s.src;
    transport_.recv(peer_of(s), identity(s), request_.fingerprint, view(into, s.count), &completion_,
                    cookie(step));
  } else {
    compute(step);
  }
}

void ProgramRun::issue_sends() {
  const auto& steps = request_.program->program.steps;
  for (; next_send_ < steps.size(); ++next_send_) {
    const Step& s = steps[next_send_];
    if (s.kind != StepKind::kSend) continue;
    if (waiting_[next_send_] != kReady) return;
    waiting_[next_send_] = kIssued;
    ++num_outstanding_;
    transport_.send(peer_of(s), identity(s), request_.fingerprint, view(s.src, s.count), &completion_,
                    cookie(next_send_));
  }
}

void ProgramRun::completed(std::uint32_t step) {
  --num_outstanding_;
  if (stopped_) return;
  const StepKind kind = this->step(step).kind;
  if (kind == StepKind::kRecvReduce || kind == StepKind::kRecvReduceLeft)
    compute(step);
  else
    done(step);
  pump();
}

void ProgramRun::arrived(std::uint32_t step, std::uint64_t bytes) {
  const Step& s = this->step(step);
  const bool adds = s.kind == StepKind::kRecvReduce || s.kind == StepKind::kRecvReduceLeft;
  // In virtual time additions are charged as a whole.
  if (stopped_ || !adds || rt_.is_virtual()) return;
  if (added_.empty()) added_.resize(num_steps());
  Step part = s;
  part.count = static_cast<std::int64_t>(bytes) / request_.elem_bytes;
  calculate(part, added_[step]);
  added_[step] = part.count;
}

void ProgramRun::compute(std::uint32_t step) {
  const Step& s = this->step(step);
  // Reading a peer's memory needs a transport that can; the group asks for no such programs.
  TR_CHECK(!collective::is_read(s.kind), "step {} reads a peer's memory", step);
  const net::View src = view(s.src, s.count), dst = view(s.dst, s.count);
  const bool nothing = s.kind == StepKind::kCopy && src.data != nullptr && src.data == dst.data;
  const double traffic = nothing ? 0 : 3.0 * static_cast<double>(dst.bytes);
  const std::int64_t from = added_.empty() ? 0 : added_[step];
  if (nothing ||
      (s.count - from) * request_.elem_bytes < (rt_.is_virtual() ? kInlineBytes : kRealInlineBytes)) {
    deferred_bytes_ += traffic;
    if (!nothing) calculate(s, from);
    done(step);
    return;
  }
  waiting_[step] = kIssued;
  ++num_outstanding_;
  runtime::ComputeRequest request;
  request.cost = {static_cast<double>(s.count), traffic};
  request.label = "reduce";
  request.fn = [this, step, from](runtime::ComputeContext&) { calculate(this->step(step), from); };
  request.done = [this, step] { listener_.on_run_computed(number_, step); };
  rt_.start_compute(std::move(request));
}

void ProgramRun::computed(std::uint32_t step) {
  --num_outstanding_;
  if (stopped_) return;
  done(step);
  pump();
}

// Elements from `from` on; only additions may begin in the middle.
void ProgramRun::calculate(const Step& s, std::int64_t from) const {
  const net::View src = view(s.src, s.count), dst = view(s.dst, s.count);
  if (dst.data == nullptr) return;
  if (s.kind == StepKind::kScale) {
    request_.combine.scale(dst.data, s.count, request_.world);
    return;
  }
  if (src.data == nullptr) return;
  if (s.kind == StepKind::kCopy)
    std::memcpy(dst.data, src.data, dst.bytes);
  else
    request_.combine.apply(dst.data + from * request_.elem_bytes, src.data + from * request_.elem_bytes,
                           s.count - from,
                           s.kind == StepKind::kReduceLeft || s.kind == StepKind::kRecvReduceLeft);
}

// Successors go on the stack last first, so that they begin in program order.
void ProgramRun::done(std::uint32_t step) {
  waiting_[step] = kDone;
  ++num_done_;
  const auto next = request_.program->successors_of(step);
  for (auto it = next.rbegin(); it != next.rend(); ++it)
    if (--waiting_[*it] == 0) ready_.push_back(*it);
}

int ProgramRun::waits_for() {
  const auto& steps = request_.program->program.steps;
  while (recv_cursor_ < steps.size() &&
         (!collective::is_recv(steps[recv_cursor_].kind) || waiting_[recv_cursor_] == kDone))
    ++recv_cursor_;
  if (recv_cursor_ < steps.size()) return peer_of(steps[recv_cursor_]);
  while (send_cursor_ < steps.size() &&
         (steps[send_cursor_].kind != StepKind::kSend || waiting_[send_cursor_] == kDone))
    ++send_cursor_;
  return send_cursor_ < steps.size() ? peer_of(steps[send_cursor_]) : -1;
}

}  // namespace trireme::comm
