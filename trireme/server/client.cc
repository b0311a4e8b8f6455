#include <algorithm>

#include "trireme/runtime/sync.h"
#include "trireme/server/mail_client.h"
#include "trireme/server/row_letters.h"

namespace trireme::server {

using runtime::Task;

MailClient::MailClient(runtime::Runtime& rt, comm::Mailbox& mail, std::vector<int> ranks, ServerLayout layout,
                       std::vector<Key> keys, std::vector<SharedCoder> coders,
                       std::vector<FactorSlice> factors, bool codes_pulls)
    : rt_(rt),
      mail_(mail),
      ranks_(std::move(ranks)),
      layout_(std::move(layout)),
      keys_(std::move(keys)),
      coders_(std::move(coders)),
      factors_(std::move(factors)),
      codes_pulls_(codes_pulls && !coders_.empty()),
      pool_(device_of(rt)),
      had_(keys_.size()) {
  TR_CHECK(static_cast<int>(ranks_.size()) == layout_.num_servers, "{} servers of {} have a rank",
           ranks_.size(), layout_.num_servers);
  slices_.resize(keys_.size());
  for (const Slice& s : layout_.slices) slices_.at(s.key).push_back(s);
  updates_.assign(layout_.slices.size(), 0);
  fewest_.assign(keys_.size(), -1);
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    pushes_.push_back(std::make_unique<Line>());
    pulls_.push_back(std::make_unique<Line>());
  }
}

Task<Status> MailClient::init(std::uint32_t key, Tensor values, InitShare share) {
  TR_CO_RETURN_IF_ERROR(check(key, values));
  const std::vector<int> senders = first_senders(layout_, share.num_workers);
  std::vector<Task<Status>> sends;
  for (const Slice& s : slices_[key]) {
    if (senders[s.id] != share.worker) continue;
    InitHead head;
    head.slice = s.id;
    sends.push_back(send(s.server, head, view_of(values, s)));
  }
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Status> MailClient::push(std::uint32_t key, Tensor values, PushNote note) {
  TR_CO_RETURN_IF_ERROR(check(key, values));
  co_return co_await send_slices(key, values, head_of(note));
}

Task<Result<Version>> MailClient::pull(std::uint32_t key, Tensor into, std::int64_t clock) {
  TR_CO_RETURN_IF_ERROR(check(key, into));
  PullHead head;
  head.clock = clock;
  co_return co_await ask_slices(key, Tensor(), into, head);
}

Task<Result<Version>> MailClient::push_pull(std::uint32_t key, Tensor values, Tensor into, PushNote note,
                                            ReadWhen when) {
  TR_CO_RETURN_IF_ERROR(check(key, values));
  TR_CO_RETURN_IF_ERROR(check(key, into));
  PushHead head = head_of(note);
  (when == ReadWhen::kBefore ? head.wants_before : head.wants_after) = true;
  co_return co_await ask_slices(key, values, into, head);
}

Task<Status> MailClient::tick(std::int64_t clock) {
  TickHead head;
  head.clock = clock;
  std::vector<Task<Status>> sends;
  for (int s = 0; s < layout_.num_servers; ++s) sends.push_back(send(s, head, {}));
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Status> MailClient::finish() {
  for (Had& had : had_) had.is_known = false;
  co_return co_await ask_servers(FinishHead{});
}

Task<Status> MailClient::rejoin(std::int64_t clock) {
  for (Had& had : had_) had.is_known = false;
  RejoinHead head;
  head.clock = clock;
  co_return co_await ask_servers(head);
}

Status MailClient::check(std::uint32_t key, const Tensor& t) const {
  if (key >= keys_.size()) return error(Code::kInvalid, "[server] key {}: got {} keys", key, keys_.size());
  const TensorType expected{DType::kF32, {keys_[key].num_elems}};
  if (t.is_null() || t.dtype() != DType::kF32 || t.shape().num_elems() != keys_[key].num_elems ||
      !t.is_contiguous())
    return error(Code::kInvalid, "[server] values of '{}': got {}, expected contiguous {}", keys_[key].name,
                 t.is_null() ? "nothing" : t.type().to_string(), expected.to_string());
  return {};
}

PushHead MailClient::head_of(const PushNote& note) {
  PushHead head;
  head.clock = note.clock;
  head.based_on = note.based_on;
  head.learning_rate = static_cast<double>(note.learning_rate);
  head.scale = static_cast<double>(note.scale);
  return head;
}

template <typename Head>
Task<Status> MailClient::ask(int server, Head head, net::View payload, net::View into, Answered* answer) {
  const int rank = ranks_[static_cast<std::size_t>(server)];
  const Result<Answered> got = co_await mail_.ask(rank, receiver_of(server), head, payload, into);
  if (!got.ok()) co_return got.status();
  if (got->head.has_failed)
    co_return error(Code::kInternal,
                    "[server] server {} (rank {}) could not make an update; the log of that rank says why",
                    server, rank);
  if (answer != nullptr) *answer = *got;
  co_return Status();
}
// Coded pulls are asked for in client_coded.cc.
template Task<Status> MailClient::ask(int, PullHead, net::View, net::View, Answered*);

Task<Status> MailClient::send_slices(std::uint32_t key, Tensor values, PushHead head) {
  const std::int64_t noted = head.based_on;
  std::vector<Task<Status>> sends;
  for (const Slice& s : slices_[key]) {
    head.slice = s.id;
    head.based_on = based_on(s, noted);
    sends.push_back(send(s.server, head, view_of(values, s)));
  }
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

template <typename Head>
Task<Result<Version>> MailClient::ask_slices(std::uint32_t key, Tensor values, Tensor into, Head head) {
  const std::vector<Slice>& slices = slices_[key];
  std::vector<Answered> answers(slices.size());
  std::vector<Task<Status>> asks;
  [[maybe_unused]] std::int64_t noted = -1;
  if constexpr (std::is_same_v<Head, PushHead>) noted = head.based_on;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    head.slice = slices[i].id;
    if constexpr (std::is_same_v<Head, PushHead>) head.based_on = based_on(slices[i], noted);
    const net::View payload = values.is_null() ? net::View() : view_of(values, slices[i]);
    asks.push_back(ask(slices[i].server, head, payload, view_of(into, slices[i]), &answers[i]));
  }
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(asks)));
  const Version version = version_of(slices, answers);
  fewest_[key] = version.updates;
  co_return version;
}

Version MailClient::version_of(std::span<const Slice> slices, std::span<const Answered> answers) {
  Version version{INT64_MAX, INT64_MAX};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const ServerAnswer& said = answers[i].head;
    updates_[slices[i].id] = said.updates;
    version.updates = std::min(version.updates, said.updates);
    version.oldest_clock = std::min(version.oldest_clock, said.oldest_clock);
  }
  return slices.empty() ? Version() : version;
}

template <typename Head>
Task<Status> MailClient::ask_servers(Head head) {
  std::vector<Task<Status>> asks;
  for (int s = 0; s < layout_.num_servers; ++s) asks.push_back(ask(s, head, {}, {}, nullptr));
  co_return co_await runtime::when_all(rt_, std::move(asks));
}

Status MailClient::check_rows(std::uint32_t key, const Tensor& rows, const Tensor& values) const {
  if (key >= keys_.size()) return error(Code::kInvalid, "[server] key {}: got {} keys", key, keys_.size());
  const auto parts = parts_of(keys_[key]);
  const auto has_rows = [](const Key::Part& p) { return p.row > 1; };
  const auto part = std::find_if(parts.begin(), parts.end(), has_rows);
  if (std::count_if(parts.begin(), parts.end(), has_rows) != 1)
    return error(Code::kInvalid, "[server] rows of '{}': expected exactly one part with rows",
                 keys_[key].name);
  const std::int64_t n = rows.is_null() ? 0 : rows.shape().num_elems();
  if (rows.is_null() || rows.dtype() != DType::kI64 || !rows.is_contiguous() || values.is_null() ||
      values.dtype() != DType::kF32 || !values.is_contiguous() || values.shape().num_elems() != n * part->row)
    return error(Code::kInvalid, "[server] rows of '{}': got {} and {}, expected i64[n] and f32[n, {}]",
                 keys_[key].name, rows.is_null() ? "nothing" : rows.type().to_string(),
                 values.is_null() ? "nothing" : values.type().to_string(), part->row);
  if (rows.is_phantom()) return {};
  for (const std::int64_t r : rows.values<std::int64_t>())
    if (r < 0 || r >= part->count / part->row)
      return error(Code::kInvalid, "[server] rows of '{}': got row {}, expected 0 to {}", keys_[key].name, r,
                   part->count / part->row - 1);
  return {};
}

Task<Status> MailClient::push_rows(std::uint32_t key, Tensor rows, Tensor values, PushNote note) {
  TR_CO_RETURN_IF_ERROR(check_rows(key, rows, values));
  // Every slice hears of the clock, also where none of its rows is touched.
  std::vector<RowLetter> letters = split_rows(keys_[key], slices_[key], rows);
  std::vector<Task<Status>> sends;
  for (RowLetter& to : letters) {
    PushRowsHead head;
    head.slice = to.slice.id;
    head.clock = note.clock;
    head.based_on = based_on(to.slice, note.based_on);
    head.learning_rate = static_cast<double>(note.learning_rate);
    head.scale = static_cast<double>(note.scale);
    sends.push_back(send(to.slice.server, head, to.pack(values)));
  }
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Result<Version>> MailClient::pull_rows(std::uint32_t key, Tensor rows, Tensor into, std::int64_t clock) {
  TR_CO_RETURN_IF_ERROR(check_rows(key, rows, into));
  std::vector<RowLetter> letters = split_rows(keys_[key], slices_[key], rows);
  std::vector<Answered> answers(letters.size());
  std::vector<Slice> slices;
  std::vector<Task<Status>> asks;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    slices.push_back(letters[i].slice);
    PullRowsHead head;
    head.slice = slices[i].id;
    head.clock = clock;
    asks.push_back(ask(slices[i].server, head, letters[i].pack_numbers(), letters[i].room(), &answers[i]));
  }
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(asks)));
  for (const RowLetter& from : letters) from.unpack(into);
  const Version version = version_of(slices, answers);
  fewest_[key] = version.updates;
  co_return version;
}

std::unique_ptr<Client> make_client(runtime::Runtime& rt, comm::Mailbox& mail, std::vector<int> server_ranks,
                                    ServerLayout layout, std::vector<Key> keys, const LinkCoding& link) {
  Result<std::vector<SharedCoder>> coders = slice_coders(link, layout, keys);
  TR_CHECK(coders.ok(), "a coded link that does not fit: {}", coders.status().to_string());
  Result<std::vector<FactorSlice>> factors = slice_factors(link.factors, layout, keys);
  TR_CHECK(factors.ok(), "factors that do not fit: {}", factors.status().to_string());
  return std::make_unique<MailClient>(rt, mail, std::move(server_ranks), std::move(layout), std::move(keys),
                                      std::move(*coders), std::move(*factors), link.pulls);
}

}  // namespace trireme::server
