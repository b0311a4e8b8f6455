#include <algorithm>
#include <cstring>

#include "trireme/server/service.h"

namespace trireme::server {

using runtime::Task;

Task<void> Service::serve(std::shared_ptr<Service> self, KeptSlice& slice) {
  Status status;
  while (!self->closed_ && self->failure_.ok() && status.ok()) {
    if (slice.look_at_pulls()) {
      std::vector<Pull> due = slice.take_due_pulls();
      for (Pull& pull : due)
        if (status.ok()) status = co_await self->answer(slice, std::move(pull));
    } else if (slice.can_apply()) {
      Batch batch = std::move(slice.queue.front());
      slice.queue.pop_front();
      status = co_await self->apply(slice, std::move(batch));
      ++slice.num_applied;
      self->look_at_farewells();
    } else {
      break;
    }
  }
  slice.is_served = false;
  if (!status.ok()) self->fail(status);
  for (const auto& waiting : self->settling_) waiting->set(true);  // they look again
}

Task<Status> Service::apply(KeptSlice& slice, Batch batch) {
  if (batch.is_init) co_return co_await set_values(slice, std::move(batch.pushes[0].values));
  TR_CO_RETURN_IF_ERROR(co_await answer_pushes(slice, batch.pushes, &Push::asked_before));
  TR_CO_RETURN_IF_ERROR(co_await update(slice, batch.pushes));
  co_return co_await answer_pushes(slice, batch.pushes, &Push::asked_after);
}

Task<Status> Service::set_values(KeptSlice& slice, Loan values) {
  const StoredSlice& stored = slice.stored();
  runtime::ComputeFn fn = [&](runtime::ComputeContext&) {
    std::memcpy(stored.values.raw(), values->raw(), stored.num_bytes());
  };
  const double bytes = 2 * static_cast<double>(stored.num_bytes());
  co_await rt_.compute(pass_cost(0, bytes), std::move(fn), 1, "server init");
  slice.has_values = true;
  slice.copied_at = -1;
  co_return Status();
}

Task<Status> Service::update(KeptSlice& slice, std::span<Push> pushes) {
  std::vector<Addend> addends;
  float learning_rate = 0;
  for (Push& push : pushes) {
    if (push.values == nullptr) continue;
    if (push.coded_bytes > 0) TR_CO_RETURN_IF_ERROR(co_await decode(slice, push));
    if (push.is_factors) TR_CO_RETURN_IF_ERROR(co_await multiply(slice, push));
    addends.push_back({&push, push.scale});
    learning_rate = push.learning_rate;
  }
  if (addends.empty()) co_return Status();
  for (Addend& a : addends) {
    if (a.push->based_on < 0) continue;
    const std::int64_t staleness = slice.updates - a.push->based_on;
    ++stats_.staleness[staleness];
    if (!options_.divide_by_staleness || staleness < 2) continue;
    // The rate itself where the update has one push; the share of each where it has several.
    if (addends.size() == 1 && options_.make_update)
      learning_rate /= static_cast<float>(staleness);
    else
      a.factor /= static_cast<float>(staleness);
  }
  const float divisor = row_.averages ? static_cast<float>(pushes.size()) : 1.0F;
  TR_CO_RETURN_IF_ERROR(co_await slice.updater->apply(std::move(addends), divisor, learning_rate));
  ++slice.updates;
  ++stats_.updates;
  co_return Status();
}

Task<Result<Loan>> Service::copy_of(KeptSlice& slice) {
  if (slice.copy != nullptr && slice.copied_at == slice.updates) co_return slice.copy;
  const StoredSlice& stored = slice.stored();
  slice.copy.reset();  // back to the pool, unless it is still on its way
  TR_CO_ASSIGN_OR_RETURN(Loan copy, pool_.take(stored.num_elems()));
  runtime::ComputeFn fn = [&](runtime::ComputeContext&) {
    std::memcpy(copy->raw(), stored.values.raw(), stored.num_bytes());
  };
  const double bytes = 2 * static_cast<double>(stored.num_bytes());
  co_await short_pass(rt_, pass_cost(0, bytes), std::move(fn), "server copy");
  slice.copy = copy;
  slice.copied_at = slice.updates;
  co_return copy;
}

Task<Status> Service::answer(KeptSlice& slice, Pull pull) {
  const bool live = row_.lockstep && slice.queue.empty() && pull.rows == nullptr && pull.is_a_pull;
  const ServerAnswer head = slice.answer_now();
  if (pull.is_a_pull) {
    ++stats_.pulls;
    stats_.pulls_waited += rt_.now() - pull.question.since;
  }
  if (pull.keeps) co_return co_await answer_kept(slice, std::move(pull));
  if (pull.wants_rows) {
    if (pull.rows == nullptr) {
      send_answer(nullptr, pull.question, head, nullptr, {});
      co_return Status();
    }
    TR_CO_ASSIGN_OR_RETURN(Loan rows, co_await gather_rows(slice, pull));
    const auto bytes = static_cast<std::uint64_t>(pull.num_rows * slice.stored().rows->row) * sizeof(float);
    const net::View view{rows->raw(), bytes};
    send_answer(nullptr, pull.question, head, std::move(rows), view);
    co_return Status();
  }
  if (live) {
    ++slice.live_reads;
    const net::View view{slice.stored().values.raw(), slice.stored().num_bytes()};
    send_answer(&slice, pull.question, head, nullptr, view);
    co_return Status();
  }
  TR_CO_ASSIGN_OR_RETURN(Loan copy, co_await copy_of(slice));
  const net::View view{copy->raw(), slice.stored().num_bytes()};
  send_answer(nullptr, pull.question, head, std::move(copy), view);
  co_return Status();
}

Task<Status> Service::answer_pushes(KeptSlice& slice, std::span<const Push> pushes,
                                    std::optional<Question> Push::*asked) {
  for (const Push& push : pushes) {
    if (!(push.*asked)) continue;
    TR_CO_ASSIGN_OR_RETURN(Loan copy, co_await copy_of(slice));
    const net::View view{copy->raw(), slice.stored().num_bytes()};
    send_answer(nullptr, *(push.*asked), slice.answer_now(), std::move(copy), view);
  }
  co_return Status();
}

Task<Result<Loan>> Service::gather_rows(KeptSlice& slice, const Pull& pull) {
  const StoredSlice& stored = slice.stored();
  const std::int64_t row = stored.rows->row;
  TR_CO_ASSIGN_OR_RETURN(Loan out, pool_.take_at_least(pull.num_rows * row));
  runtime::ComputeFn fn = [&](runtime::ComputeContext&) {
    const float* values = stored.values.data<float>() + stored.parts[stored.rows->part].offset;
    const auto* numbers = reinterpret_cast<const std::int64_t*>(pull.rows->raw());
    for (std::int64_t r = 0; r < pull.num_rows; ++r)
      std::memcpy(out->data<float>() + r * row, values + numbers[r] * row,
                  static_cast<std::size_t>(row) * sizeof(float));
  };
  const double bytes = 8 * static_cast<double>(pull.num_rows * row);
  co_await rt_.compute(pass_cost(0, bytes), std::move(fn), 1, "server rows");
  co_return out;
}

void Service::send_answer(KeptSlice* live, const Question& to, ServerAnswer head, Loan memory,
                          net::View view) {
  rt_.spawn(reply(shared_from_this(), live, to, head, std::move(memory), view));
}

// A failure is the loss of who asked, which on_lost() tells, or the group's verdict, which everybody gets.
Task<void> Service::reply(std::shared_ptr<Service> self, KeptSlice* live, Question to, ServerAnswer head,
                          Loan /*memory*/, net::View view) {
  (void)co_await self->mail_.reply(to.peer, to.ticket, head, view);
  if (live == nullptr) co_return;
  --live->live_reads;
  self->wake(*live);
}

Task<Status> Service::settle() {
  const auto is_settled = [&] {
    return std::all_of(slices_.begin(), slices_.end(),
                       [](const auto& s) { return s->is_done_up_to(s->num_queued); });
  };
  while (failure_.ok() && !is_settled()) {
    auto look_again = std::make_shared<runtime::OneShot<bool>>(rt_);
    settling_.push_back(look_again);
    co_await look_again->wait_until(kForever);
    std::erase(settling_, look_again);
  }
  co_return failure_;
}

std::vector<std::pair<std::string, Tensor>> Service::state() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const auto& slice : slices_)
    for (auto& entry : slice->updater->state()) out.push_back(std::move(entry));
  return out;
}

}  // namespace trireme::server
