#include <algorithm>

#include "trireme/runtime/sync.h"
#include "trireme/server/mail_client.h"
#include "trireme/server/row_letters.h"

namespace trireme::server {

using comm::Letter;
using runtime::Task;

MailClient::MailClient(runtime::Runtime& rt, comm::Mailbox& mail, std::vector<int> ranks, Layout layout,
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

Task<Status> MailClient::init(std::uint32_t key, Tensor values) {
  TR_CO_RETURN_IF_ERROR(check(key, values));
  Letter letter;
  letter.flags = kInit;
  co_return co_await send_slices(key, values, letter);
}

Task<Status> MailClient::push(std::uint32_t key, Tensor values, PushNote note) {
  TR_CO_RETURN_IF_ERROR(check(key, values));
  co_return co_await send_slices(key, values, letter_of(kPush, note));
}

Task<Result<Version>> MailClient::pull(std::uint32_t key, Tensor into, std::int64_t clock) {
  TR_CO_RETURN_IF_ERROR(check(key, into));
  Letter letter;
  letter.flags = kPull;
  letter.clock = clock;
  co_return co_await ask_slices(key, Tensor(), into, letter);
}

Task<Result<Version>> MailClient::push_pull(std::uint32_t key, Tensor values, Tensor into, PushNote note,
                                            ReadWhen when) {
  TR_CO_RETURN_IF_ERROR(check(key, values));
  TR_CO_RETURN_IF_ERROR(check(key, into));
  Letter letter = letter_of(kPush, note);
  letter.flags |= when == ReadWhen::kBefore ? kFlagBefore : kFlagAfter;
  co_return co_await ask_slices(key, values, into, letter);
}

Task<Status> MailClient::tick(std::int64_t clock) {
  Letter letter;
  letter.flags = kTick;
  letter.clock = clock;
  std::vector<Task<Status>> sends;
  for (int s = 0; s < layout_.num_servers; ++s) sends.push_back(send(s, letter, {}));
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Status> MailClient::finish() {
  for (Had& had : had_) had.is_known = false;
  Letter letter;
  letter.flags = kFinish;
  co_return co_await ask_servers(letter);
}

Task<Status> MailClient::rejoin(std::int64_t clock) {
  for (Had& had : had_) had.is_known = false;
  Letter letter;
  letter.flags = kRejoin;
  letter.clock = clock;
  co_return co_await ask_servers(letter);
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

Letter MailClient::letter_of(LetterOf what, const PushNote& note) {
  Letter letter;
  letter.flags = what;
  letter.clock = note.clock;
  letter.number = note.based_on;
  letter.value = static_cast<double>(note.learning_rate);
  letter.value2 = static_cast<double>(note.scale);
  return letter;
}

Task<Status> MailClient::ask(int server, Letter letter, net::View payload, net::View into, Letter* answer) {
  const int rank = ranks_[static_cast<std::size_t>(server)];
  letter.kind = kind_of_server(server);
  Result<Letter> got = co_await mail_.ask(rank, letter, payload, into);
  if (!got.ok()) co_return got.status();
  if ((got->flags & kFlagFailed) != 0)
    co_return error(Code::kInternal,
                    "[server] server {} (rank {}) could not make an update; the log of that rank says why",
                    server, rank);
  if (answer != nullptr) *answer = *got;
  co_return Status();
}

Task<Status> MailClient::send_slices(std::uint32_t key, Tensor values, Letter letter) {
  const std::int64_t noted = letter.number;
  std::vector<Task<Status>> sends;
  for (const Slice& s : slices_[key]) {
    letter.key = s.id;
    letter.number = based_on(s, noted);
    sends.push_back(send(s.server, letter, view_of(values, s)));
  }
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Result<Version>> MailClient::ask_slices(std::uint32_t key, Tensor values, Tensor into, Letter letter) {
  const std::vector<Slice>& slices = slices_[key];
  std::vector<Letter> answers(slices.size());
  std::vector<Task<Status>> asks;
  const std::int64_t noted = letter.number;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    letter.key = slices[i].id;
    if (!values.is_null()) letter.number = based_on(slices[i], noted);
    const net::View payload = values.is_null() ? net::View() : view_of(values, slices[i]);
    asks.push_back(ask(slices[i].server, letter, payload, view_of(into, slices[i]), &answers[i]));
  }
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(asks)));
  const Version version = version_of(slices, answers);
  fewest_[key] = version.updates;
  co_return version;
}

Version MailClient::version_of(std::span<const Slice> slices, std::span<const Letter> answers) {
  Version version{INT64_MAX, INT64_MAX};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    updates_[slices[i].id] = answers[i].number;
    version.updates = std::min(version.updates, answers[i].number);
    version.oldest_clock = std::min(version.oldest_clock, answers[i].clock);
  }
  return slices.empty() ? Version() : version;
}

Task<Status> MailClient::ask_servers(Letter letter) {
  std::vector<Task<Status>> asks;
  for (int s = 0; s < layout_.num_servers; ++s) asks.push_back(ask(s, letter, {}, {}, nullptr));
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
    Letter letter = letter_of(kPushRows, note);
    letter.key = to.slice.id;
    letter.number = based_on(to.slice, note.based_on);
    sends.push_back(send(to.slice.server, letter, to.pack(values)));
  }
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Result<Version>> MailClient::pull_rows(std::uint32_t key, Tensor rows, Tensor into, std::int64_t clock) {
  TR_CO_RETURN_IF_ERROR(check_rows(key, rows, into));
  std::vector<RowLetter> letters = split_rows(keys_[key], slices_[key], rows);
  std::vector<Letter> answers(letters.size());
  std::vector<Slice> slices;
  std::vector<Task<Status>> asks;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    slices.push_back(letters[i].slice);
    Letter letter;
    letter.flags = kPullRows;
    letter.key = slices[i].id;
    letter.clock = clock;
    asks.push_back(ask(slices[i].server, letter, letters[i].pack_numbers(), letters[i].room(), &answers[i]));
  }
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(asks)));
  for (const RowLetter& from : letters) from.unpack(into);
  const Version version = version_of(slices, answers);
  fewest_[key] = version.updates;
  co_return version;
}

std::unique_ptr<Client> make_client(runtime::Runtime& rt, comm::Mailbox& mail, std::vector<int> server_ranks,
                                    Layout layout, std::vector<Key> keys, const LinkCoding& link) {
  Result<std::vector<SharedCoder>> coders = slice_coders(link, layout, keys);
  TR_CHECK(coders.ok(), "a coded link that does not fit: {}", coders.status().to_string());
  Result<std::vector<FactorSlice>> factors = slice_factors(link.factors, layout, keys);
  TR_CHECK(factors.ok(), "factors that do not fit: {}", factors.status().to_string());
  return std::make_unique<MailClient>(rt, mail, std::move(server_ranks), std::move(layout), std::move(keys),
                                      std::move(*coders), std::move(*factors), link.pulls);
}

}  // namespace trireme::server
