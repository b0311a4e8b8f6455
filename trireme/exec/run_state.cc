#include "trireme/exec/run_state.h"

#include <algorithm>
#include <span>
#include <utility>

namespace trireme::exec {

using runtime::Task;

namespace {

// Strands of these phases that wait for the gate.
std::span<const std::int32_t> waiting_for(const Partition& part, std::size_t gate, std::int32_t first_phase,
                                          std::int32_t last_phase) {
  const std::vector<std::int32_t>& all = part.gate_strands[gate];
  const auto from = std::lower_bound(all.begin(), all.end(),
                                     part.first_strand[static_cast<std::size_t>(first_phase)]),
             to = std::lower_bound(from, all.end(),
                                   part.first_strand[static_cast<std::size_t>(last_phase) + 1]);
  return {from, to};
}

// Host ops work on the host: copies of their operands.
Task<Status> run_beside_device(RunState& self, HostOp& host, HostCall call, std::int32_t node) {
  HostOperands operands;
  Status done = self.gpu->take_operands(self.inputs_of(node), self.outputs_of(node), operands);
  if (done.ok()) {
    call.inputs = operands.in;
    call.outputs = operands.out;
    done = co_await host.start(std::move(call));
  }
  if (done.ok()) done = self.gpu->write_outputs(operands, self.outputs_of(node));
  self.gpu->give_back(operands);
  co_return done;
}

}  // namespace

void RunState::begin(const RunOptions& options) {
  running = true;
  how = options;
  if (token.cancelled()) token = {};
  if (how.deadline != kForever)
    deadline_timer = rt.call_at(how.deadline, [self = shared_from_this()] {
      self->deadline_timer = 0;
      self->cancel(Status(Code::kDeadline, "[exec] the run passed its deadline"));
    });
  phase.first = std::max(options.phase, 0);
  phase.last = options.phase < 0 ? plan->phases.num - 1 : options.phase;
  phase.begun = phase.last + 1;
  status = {};
  if (gpu) gpu->begin();
  if (times) times->run_begins(rt.now());
  held = {};
  met = {};
  begin_phase(phase.first);
  settle();
}

// Everything of the phases before it has ended.
void RunState::begin_phase(std::int32_t p) {
  phase.now = p;
  ready.clear();
  due.clear();
  const Partition& part = plan->part;
  const auto first = static_cast<std::size_t>(part.first_strand[static_cast<std::size_t>(p)]),
             end = static_cast<std::size_t>(part.first_strand[static_cast<std::size_t>(p) + 1]);
  for (std::size_t s = first; s < end; ++s) strands[s].waiting = part.strands[s].num_before;
  closed_gates = 0;
  for (std::size_t g = 0; g < gate_open.size(); ++g) {
    const std::span<const std::int32_t> waiting = waiting_for(part, g, p, p);
    if (gate_open[g] == 0 && !waiting.empty()) ++closed_gates;
    for (const std::int32_t s : waiting) strands[static_cast<std::size_t>(s)].waiting -= gate_open[g];
  }
  for (std::size_t s = first; s < end; ++s)
    if (strands[s].waiting == 0) ready.push(static_cast<std::int32_t>(s));
  for (std::size_t n = 0; n < notice_waiting.size(); ++n) {
    if (plan->notice_phase[n] != p) continue;
    notice_waiting[n] = part.notice_before[n];
    if (notice_waiting[n] == 0) due.push(static_cast<std::int32_t>(n));
  }
}

void RunState::start(std::int32_t strand) {
  ++in_flight.all;
  if (times) times->strand_begins(strand, rt.now());
  const Strand& s = plan->part.strands[static_cast<std::size_t>(strand)];
  if (s.is_host) {
    ++in_flight.hosts;
    rt.spawn(run_host(shared_from_this(), strand));
    return;
  }
  if (gpu != nullptr) {
    on_device.push_back(strand);
    if (on_device.size() == 1) start_on_device(strand);
    return;
  }
  rt.start_compute({.cost = s.cost,
                    .width = plan->options.width,
                    .label = "strand",
                    .fn = [self = shared_from_this(),
                           strand](runtime::ComputeContext& context) { self->run_calls(strand, context); },
                    .done = [self = shared_from_this(), strand] { self->ended(strand, {}); }});
}

// A thread of the pool waits for the GPU: the loop stays free.
void RunState::start_on_device(std::int32_t strand) {
  runtime::ComputeFn fn = [self = shared_from_this(), strand](runtime::ComputeContext&) {
    self->gpu->run(strand, self->times.get(), self->rt);
  };
  Callback done = [self = shared_from_this(), strand] {
    std::vector<std::int32_t>& queue = self->on_device;
    queue.erase(queue.begin());
    const Status result = self->gpu->result();
    const std::shared_ptr<Event> point = self->gpu->point();
    if (!result.ok() || !self->status.ok()) {  // those behind it never start
      self->in_flight.all -= static_cast<int>(queue.size());
      queue.clear();
    }
    if (!queue.empty()) self->start_on_device(queue.front());
    self->ended(strand, result, point);
  };
  rt.start_compute({.cost = plan->part.strands[static_cast<std::size_t>(strand)].cost,
                    .width = 1,
                    .label = "strand",
                    .fn = std::move(fn),
                    .done = std::move(done)});
}

void RunState::run_calls(std::int32_t strand, runtime::ComputeContext& context) {
  StrandState& s = strands[static_cast<std::size_t>(strand)];
  s.parallel.context = &context;
  if (times && !rt.is_virtual()) {
    run_timed(strand);
  } else {
    if (times) times->strand_begins(strand, rt.now());
    for (std::size_t i = s.first_call; i < s.end_call; ++i) calls[i].run(calls[i].args);
  }
  s.parallel.context = nullptr;
}

// On the thread that computes: a real Runtime's now() is only a reading of the clock.
void RunState::run_timed(std::int32_t strand) {
  const StrandState& s = strands[static_cast<std::size_t>(strand)];
  const std::vector<std::int32_t>& nodes = plan->part.strands[static_cast<std::size_t>(strand)].nodes;
  TimeNs begin = rt.now();
  for (std::size_t i = s.first_call; i < s.end_call; ++i) {
    calls[i].run(calls[i].args);
    const TimeNs end = rt.now();
    times->add(nodes[i - s.first_call], begin, end);
    begin = end;
  }
}

void RunState::note_end(std::int32_t strand) {
  const bool timed = !plan->part.strands[static_cast<std::size_t>(strand)].is_host && !rt.is_virtual();
  if (!timed) times->add_strand(strand, times->strand_begin(strand), rt.now());
}

Task<void> RunState::run_host(std::shared_ptr<RunState> self, std::int32_t strand) {
  const std::int32_t node = self->plan->part.strands[static_cast<std::size_t>(strand)].nodes[0];
  HostOp& host = *self->strands[static_cast<std::size_t>(strand)].host;
  const graph::Node& what = self->plan->program.node(node);
  HostCall call{.node = what,
                .inputs = self->inputs_of(node),
                .outputs = self->outputs_of(node),
                .run = self->how.number,
                .deadline = self->how.deadline,
                .cancel = self->token};
  Status status;
  if (self->gpu != nullptr && host.takes_device(what)) {
    status = self->gpu->ready_on_device(call.inputs);
    if (status.ok()) status = co_await host.start(std::move(call));
  } else if (self->gpu != nullptr)
    status = co_await run_beside_device(*self, host, std::move(call), node);
  else
    status = co_await host.start(std::move(call));
  --self->in_flight.hosts;
  self->ended(strand, std::move(status));
}

void RunState::ended(std::int32_t strand, Status result, const std::shared_ptr<Event>& point) {
  --in_flight.all;
  if (times) note_end(strand);
  if (!result.ok()) fail(std::move(result));
  if (status.ok()) {
    const Strand& s = plan->part.strands[static_cast<std::size_t>(strand)];
    for (const std::int32_t next : s.after)
      if (--strands[static_cast<std::size_t>(next)].waiting == 0) ready.push(next);
    for (const std::int32_t n : s.notices) give_notice(n, point);
  }
  settle();
}

// Starts what is ready, then tells what is final, until neither is left. A host op that ends at once and a
// listener that ends one get here again: the outermost call does the work.
void RunState::settle() {
  if (settling) return;
  start_ready();
  end_if_done();
}

void RunState::start_ready() {
  if (settling) return;
  settling = true;
  while (status.ok() && !(ready.is_done() && due.is_done())) {
    if (!ready.is_done()) {
      start(ready.take());
    } else {
      const std::int32_t notice = due.take();
      if (listeners.notice) listeners.notice(notice, notice_point[static_cast<std::size_t>(notice)]);
    }
  }
  settling = false;
  // Whether the run stands because others have not met it yet.
  const bool stands = in_flight.hosts > 0 && in_flight.all == in_flight.hosts;
  if (stands && closed_gates > 0) tell_held();
  if (stands == (met.since >= 0)) return;
  if (!stands) met.ns += rt.now() - met.since;
  met.since = stands ? rt.now() : -1;
}

// Later: the listener may open gates.
void RunState::tell_held() {
  if (!listeners.held) return;
  rt.post([self = shared_from_this()] {
    if (self->running && self->status.ok() && self->listeners.held) self->listeners.held();
  });
}

void RunState::end_if_done() {
  for (;; start_ready()) {
    if (!running || settling || in_flight.all > 0) return;
    if (status.ok() && closed_gates > 0) {
      if (held.since < 0) held.since = rt.now();
      tell_held();
      return;
    }
    held.end(rt.now());
    if (!status.ok() || phase.now == phase.last) break;
    begin_phase(phase.now + 1);
  }
  running = false;
  for (std::size_t g = 0; g < gate_open.size(); ++g)
    if (!status.ok() || plan->part.gate_strands[g].empty() ||
        !waiting_for(plan->part, g, phase.first, phase.last).empty())
      gate_open[g] = 0;
  if (!status.ok()) phase.begun = 0;
  if (deadline_timer != 0) rt.cancel_timer(std::exchange(deadline_timer, 0));
  if (times) times->run_ends(rt.now(), status.ok(), phase.last + 1 == plan->phases.num);
  if (waiter) std::exchange(waiter, nullptr).resume();
}

// The run never ends inside this call: its end resumes whoever awaits it.
void RunState::open(std::int32_t gate) {
  const auto g = static_cast<std::size_t>(gate);
  TR_CHECK(g < gate_open.size(), "gate {} of {}", gate, gate_open.size());
  if (gate_open[g] != 0) return;
  gate_open[g] = 1;
  const std::span<const std::int32_t> waiting = waiting_for(plan->part, g, phase.now, phase.now);
  if (!running || !status.ok() || waiting.empty()) return;
  --closed_gates;
  for (const std::int32_t s : waiting)
    if (--strands[static_cast<std::size_t>(s)].waiting == 0) ready.push(s);
  start_ready();
  if (in_flight.all > 0)
    held.end(rt.now());
  else
    rt.post([self = shared_from_this()] { self->end_if_done(); });
}

void RunState::fail(Status why) {
  if (!status.ok()) return;
  status = std::move(why);
  token.cancel(status);
}

void RunState::abandon() {
  waiter = nullptr;
  if (status.ok()) status = Status(Code::kCancelled, "[exec] the run was abandoned");
  if (in_flight.all > 0) {  // what runs ends it
    rt.post([cancelled = token, why = status]() mutable { cancelled.cancel(std::move(why)); });
    return;
  }
  running = false;
  phase.begun = 0;
  if (deadline_timer != 0) rt.cancel_timer(std::exchange(deadline_timer, 0));
  std::fill(gate_open.begin(), gate_open.end(), 0);
}

void RunState::cancel(Status why) {
  if (!running || !status.ok()) return;
  fail(std::move(why));
  rt.post([self = shared_from_this()] { self->end_if_done(); });
}

}  // namespace trireme::exec
