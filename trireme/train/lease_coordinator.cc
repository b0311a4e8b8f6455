#include "trireme/train/lease_coordinator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trireme::train {

using comm::Letter;
using runtime::Task;

LeaseCoordinator::LeaseCoordinator(runtime::Runtime& rt, comm::Group& group, comm::Mailbox& mail,
                                   engine::LeaseDesk desk, LeaseCoordinatorOptions options)
    : rt_(rt),
      group_(group),
      mail_(mail),
      desk_(std::move(desk)),
      options_(std::move(options)),
      reports_(static_cast<std::size_t>(options_.num_workers)) {
  handle_letters();
  handle_results();
  mail_.on_lost([this, alive = alive_](int peer, const Status& why) {
    if (*alive && peer < options_.num_workers) on_lost(peer, why);
  });
}

namespace {

Status check_bytes(std::uint64_t got, std::size_t expected) {
  if (got == expected) return {};
  return error(Code::kMismatch,
               "[train] a worker's report has {} bytes; expected {}: all ranks must run the same version",
               got, expected);
}

}  // namespace

void LeaseCoordinator::handle_letters() {
  mail_.handle<TakeHead>({nullptr, [this](int peer, const Letter<TakeHead>& letter) {
                            if (peer < options_.num_workers) on_take(peer, letter);
                          }});
  mail_.handle<DoneHead>({[this](int peer, const Letter<DoneHead>& letter) -> Result<net::View> {
                            TR_RETURN_IF_ERROR(check_bytes(letter.bytes, sizeof(UnitReport)));
                            auto& queue = reports_[static_cast<std::size_t>(peer)];
                            queue.emplace_back();
                            return net::View{reinterpret_cast<std::byte*>(&queue.back()), sizeof(UnitReport)};
                          },
                          [this](int peer, const Letter<DoneHead>&) { on_done(peer); }});
  mail_.handle<ArriveHead>(
      {nullptr, [this](int peer, const Letter<ArriveHead>& letter) { on_arrive(peer, letter); }});
  mail_.handle<GoHead>({nullptr, [this](int peer, const Letter<GoHead>& letter) { on_go(peer, letter); }});
}

// What workers bring to meetings, and their last words.
void LeaseCoordinator::handle_results() {
  mail_.handle<ScoresHead>(
      {[this](int, const Letter<ScoresHead>& letter) -> Result<net::View> {
         const ScoresHead& head = letter.head;
         std::vector<float>* to = scores_[static_cast<std::int32_t>(head.part)];
         const std::int64_t n = 2 * (head.end - head.begin);
         if (to == nullptr || head.begin < 0 || n < 0 || 2 * head.end > static_cast<std::int64_t>(to->size()))
           return error(Code::kMismatch, "[train] scores of batches {} to {} of part {}, which has {}",
                        head.begin, head.end, head.part, to == nullptr ? 0 : to->size() / 2);
         TR_RETURN_IF_ERROR(check_bytes(letter.bytes, static_cast<std::size_t>(n) * sizeof(float)));
         return net::View{reinterpret_cast<std::byte*>(to->data() + 2 * head.begin), letter.bytes};
       },
       [this](int peer, const Letter<ScoresHead>& letter) {
         const ScoresHead& head = letter.head;
         scored_.push_back({peer, static_cast<std::int32_t>(head.part), head.begin, head.end});
       }});
  mail_.handle<FinalHead>({[this](int peer, const Letter<FinalHead>& letter) -> Result<net::View> {
                             std::string& to = finals_[peer];
                             to.assign(letter.bytes, ' ');
                             return net::View{reinterpret_cast<std::byte*>(to.data()), letter.bytes};
                           },
                           [this](int peer, const Letter<FinalHead>&) {
                             final_.insert(peer);
                             look_who_waits();
                           }});
}

LeaseCoordinator::~LeaseCoordinator() {
  *alive_ = false;
  mail_.stop_handling<TakeHead>();
  mail_.stop_handling<DoneHead>();
  mail_.stop_handling<ArriveHead>();
  mail_.stop_handling<ScoresHead>();
  mail_.stop_handling<GoHead>();
  mail_.stop_handling<FinalHead>();
}

template <typename Answer>
Task<void> LeaseCoordinator::answer(Asked<Answer> asked, Answer with) {
  // Who is gone needs no answer; everything else is the group's verdict, which ends this rank's own work too.
  (void)co_await mail_.reply(asked.worker, asked.ticket, with, net::View{});
}

Task<void> LeaseCoordinator::answer_ticket(Asked<comm::EmptyHead> asked,
                                           std::shared_ptr<MeetingTicket> ticket) {
  const net::View view{reinterpret_cast<std::byte*>(ticket.get()), sizeof(MeetingTicket)};
  const comm::EmptyHead with;
  (void)co_await mail_.reply(asked.worker, asked.ticket, with, view);
}

Task<void> LeaseCoordinator::tell_taken(int worker, engine::Unit unit) {
  TakenHead head;
  head.batch = unit.batch;
  head.shard = static_cast<std::uint32_t>(unit.shard);
  (void)co_await mail_.send(worker, head, net::View{});
}

void LeaseCoordinator::on_take(int worker, const Letter<TakeHead>& letter) {
  const engine::Grant grant = desk_.next(worker);
  if (grant.taken_from >= 0) rt_.spawn(tell_taken(grant.taken_from, *grant.unit));
  const int enough = static_cast<int>(std::ceil(options_.fraction * options_.num_workers));
  if (!grant.unit && options_.fraction < 1 && desk_.num_meeting() >= std::min(enough, num_live()))
    desk_.drop_rest();
  TakeAnswer with;
  with.round = round_;
  with.has_unit = grant.unit.has_value();
  if (grant.unit) {
    with.batch = grant.unit->batch;
    with.shard = static_cast<std::uint32_t>(grant.unit->shard);
  }
  rt_.spawn(answer(Asked<TakeAnswer>{worker, letter.ticket}, with));
}

void LeaseCoordinator::on_done(int worker) {
  auto& queue = reports_[static_cast<std::size_t>(worker)];
  const UnitReport report = queue.front();
  queue.pop_front();
  if (report.stop_wanted != 0) stop();
  if (desk_.finish(worker, {report.batch, report.shard}) && options_.on_report)
    options_.on_report(worker, report);
}

void LeaseCoordinator::stop() { desk_.stop(); }

void LeaseCoordinator::on_arrive(int worker, const Letter<ArriveHead>& letter) {
  arrived_.push_back({worker, letter.ticket});
  let_in_when_all_are_here();
}

void LeaseCoordinator::let_in_when_all_are_here() {
  if (arrived_.empty() || static_cast<int>(arrived_.size()) < num_live()) return;
  const int last_to_come = arrived_.back().worker;
  std::sort(arrived_.begin(), arrived_.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  scored_.clear();
  drift_ = {};
  going_.clear();
  present_.clear();
  const MeetingTicket plain = options_.make_ticket();
  for (std::size_t i = 0; i < arrived_.size(); ++i) {
    auto ticket = std::make_shared<MeetingTicket>(plain);
    ticket->index = static_cast<std::int32_t>(i);
    ticket->num_present = static_cast<std::int32_t>(arrived_.size());
    ticket->last_to_come = last_to_come;
    present_.insert(arrived_[i].worker);
    rt_.spawn(answer_ticket(arrived_[i], std::move(ticket)));
  }
  arrived_.clear();
}

void LeaseCoordinator::on_go(int worker, const Letter<GoHead>& letter) {
  const double drift = letter.head.drift;
  if (std::isfinite(drift)) {
    drift_.sum += drift;
    drift_.most = std::max(drift_.most, drift);
    ++drift_.count;
  }
  going_.push_back({worker, letter.ticket});
  look_who_waits();
}

void LeaseCoordinator::on_lost(int worker, const Status& why) {
  if (!lost_.insert(worker).second) return;
  desk_.lose(worker);
  reports_[static_cast<std::size_t>(worker)].clear();
  std::erase_if(arrived_, [&](const auto& a) { return a.worker == worker; });
  std::erase_if(going_, [&](const auto& a) { return a.worker == worker; });
  present_.erase(worker);
  if (options_.on_lost) options_.on_lost(worker, why);
  let_in_when_all_are_here();
  look_who_waits();
}

void LeaseCoordinator::look_who_waits() {
  // Rank 0's own worker does not ask: it is the one who waits here.
  if (all_ask_to_go_ && going_.size() + 1 >= present_.size()) all_ask_to_go_->set(true);
  if (!all_final_) return;
  for (int w = 0; w < options_.num_workers; ++w)
    if (!lost_.contains(w) && !final_.contains(w)) return;
  all_final_->set(true);
}

// Letters stop coming when the group has failed.
Task<Status> LeaseCoordinator::wait(std::unique_ptr<runtime::OneShot<bool>>& shot) {
  constexpr TimeNs kLook = 100 * kMilli;
  while (group_.verdict().ok() && !co_await shot->wait_until(rt_.now() + kLook)) {
  }
  shot.reset();
  co_return group_.verdict();
}

Task<Status> LeaseCoordinator::wait_until_all_ask_to_go() {
  all_ask_to_go_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  look_who_waits();
  co_return co_await wait(all_ask_to_go_);
}

Task<Status> LeaseCoordinator::wait_for_finals() {
  all_final_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  look_who_waits();
  co_return co_await wait(all_final_);
}

LeaseCoordinator::Drift LeaseCoordinator::take_drift() { return std::exchange(drift_, {}); }

std::vector<std::pair<std::int64_t, std::int64_t>> LeaseCoordinator::unscored(
    std::int32_t part, std::int64_t num_batches) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> covered, out;
  for (const Range& r : scored_)
    if (r.part == part) covered.emplace_back(r.begin, r.end);
  std::sort(covered.begin(), covered.end());
  std::int64_t at = 0;
  for (const auto& [begin, end] : covered) {
    if (begin > at) out.emplace_back(at, begin);
    at = std::max(at, end);
  }
  if (at < num_batches) out.emplace_back(at, num_batches);
  return out;
}

void LeaseCoordinator::let_go(Go go) {
  ++round_;
  for (const auto& asked : std::exchange(going_, {})) rt_.spawn(answer(asked, GoAnswer{go}));
}

}  // namespace trireme::train
