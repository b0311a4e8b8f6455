#include <algorithm>
#include <cstring>

#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"
#include "trireme/server/mail_client.h"
#include "trireme/server/stored_slice.h"

namespace trireme::server {

using runtime::Task;

const VectorCoder* MailClient::coder_of(std::uint32_t key) const {
  return coders_.empty() || slices_[key].empty() ? nullptr : coders_[slices_[key][0].id].get();
}

bool MailClient::encodes(std::uint32_t key, std::int64_t exchange) const {
  const VectorCoder* coder = coder_of(key);
  return coder != nullptr && coder->encodes_at(exchange);
}

Task<Status> MailClient::push_coded(std::uint32_t key, Tensor values, PushNote note, CodedNote coded) {
  if (key < keys_.size() && !encodes(key, coded.exchange))
    co_return co_await push(key, std::move(values), note);
  TR_CO_RETURN_IF_ERROR(check(key, values));
  if (!coded.residual.is_null()) TR_CO_RETURN_IF_ERROR(check(key, coded.residual));
  if (!coded.velocity.is_null()) TR_CO_RETURN_IF_ERROR(check(key, coded.velocity));
  PushHead head = head_of(note);
  head.is_coded = true;
  std::vector<Task<Status>> sends;
  for (const Slice& s : slices_[key]) {
    head.slice = s.id;
    head.based_on = based_on(s, note.based_on);  // as it is now, not when it is this push's turn
    sends.push_back(push_slice(s, values, head, coded));
  }
  co_await pushes_[key]->wait(rt_);
  const Line::Turn turn(*pushes_[key]);
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Status> MailClient::push_slice(Slice slice, Tensor values, PushHead head, CodedNote coded) {
  const VectorCoder& coder = *coders_[slice.id];
  TR_CO_ASSIGN_OR_RETURN(const Loan memory, pool_.take(VectorCoder::num_elems_for(coder.max_bytes())));
  ToEncode from;
  from.values = std::move(values);
  from.residual = coded.residual;
  from.velocity = coded.velocity;
  from.first = slice.begin;
  from.exchange = coded.exchange;
  from.key = mix_key(coded.key, slice.id);
  TR_CO_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                         co_await encode_vector(rt_, coder, std::move(from), *memory));
  const net::View message{memory->raw(), bytes};
  co_return co_await send(slice.server, head, message);
}

Task<Status> MailClient::push_factors(std::uint32_t key, Tensor factors, PushNote note) {
  const auto is_factored = [&](const Slice& s) { return !factors_.empty() && factors_[s.id].is_on(); };
  if (key >= keys_.size() || !std::all_of(slices_[key].begin(), slices_[key].end(), is_factored))
    co_return error(Code::kInvalid, "[server] factors for key {}: expected a key that is pushed as factors",
                    key);
  std::int64_t elems = 0;
  for (const Slice& s : slices_[key])
    for (const FactorSlice::Piece& p : factors_[s.id].pieces)
      elems =
          std::max({elems, p.whole.u_offset + p.whole.rows * p.whole.depth, p.whole.v_offset + p.v_elems()});
  if (factors.is_null() || factors.dtype() != DType::kF32 || factors.shape().num_elems() < elems ||
      !factors.is_contiguous())
    co_return error(Code::kInvalid, "[server] factors of '{}': got {}, expected contiguous f32 [{}] or more",
                    keys_[key].name, factors.is_null() ? "nothing" : factors.type().to_string(), elems);
  PushHead head = head_of(note);
  head.is_factors = true;
  std::vector<Task<Status>> sends;
  for (const Slice& s : slices_[key]) {
    head.slice = s.id;
    head.based_on = based_on(s, note.based_on);
    sends.push_back(push_factor_slice(s, factors, head));
  }
  co_return co_await runtime::when_all(rt_, std::move(sends));
}

Task<Status> MailClient::push_factor_slice(Slice slice, Tensor factors, PushHead head) {
  const FactorSlice& own = factors_[slice.id];
  TR_CO_ASSIGN_OR_RETURN(const Loan memory, pool_.take(own.num_elems));
  runtime::ComputeFn pack = [&](runtime::ComputeContext&) {
    own.pack(factors.data<float>(), memory->data<float>());
  };
  const auto bytes = static_cast<double>(own.num_bytes());
  co_await short_pass(rt_, pass_cost(0, 2 * bytes), std::move(pack), "pack factors");
  const net::View message{memory->raw(), own.num_bytes()};
  co_return co_await send(slice.server, head, message);
}

// One at a time per key: a difference is to what the answer before it left here.
Task<Result<Version>> MailClient::pull_coded(std::uint32_t key, Tensor into, std::int64_t clock,
                                             std::int64_t exchange) {
  if (!codes_pulls_ || key >= keys_.size() || coder_of(key) == nullptr)
    co_return co_await pull(key, std::move(into), clock);
  TR_CO_RETURN_IF_ERROR(check(key, into));
  co_await pulls_[key]->wait(rt_);
  const Line::Turn turn(*pulls_[key]);
  Had& had = had_[key];
  if (had.values.is_null()) {
    const TensorType type{DType::kF32, {keys_[key].num_elems}};
    TR_CO_ASSIGN_OR_RETURN(had.values, Tensor::allocate(device_of(rt_), type));
  }
  PullHead head;
  head.keeps = true;
  head.takes_coded = had.is_known && encodes(key, exchange);
  head.clock = clock;
  head.exchange = exchange;
  const std::vector<Slice>& slices = slices_[key];
  std::vector<Answered> answers(slices.size());
  std::vector<Task<Status>> asks;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    head.slice = slices[i].id;
    asks.push_back(pull_slice(slices[i], into, head, &answers[i]));
  }
  had.is_known = false;  // until all of it is here
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(asks)));
  had.is_known = true;
  const Version version = version_of(slices, answers);
  fewest_[key] = version.updates;
  co_return version;
}

Task<Status> MailClient::pull_slice(Slice slice, Tensor into, PullHead head, Answered* answer) {
  const Tensor have = had_[slice.key].values, nowhere;
  if (!head.takes_coded) {
    const net::View nothing, to = view_of(into, slice);
    TR_CO_RETURN_IF_ERROR(co_await ask(slice.server, head, nothing, to, answer));
    co_await take_values(slice, into, slice.begin, have, nowhere);
    co_return Status();
  }
  const VectorCoder& coder = *coders_[slice.id];
  const std::int64_t elems = std::max(slice.end - slice.begin, VectorCoder::num_elems_for(coder.max_bytes()));
  TR_CO_ASSIGN_OR_RETURN(const Loan memory, pool_.take(elems));
  const net::View nothing, room{memory->raw(), static_cast<std::uint64_t>(elems) * sizeof(float)};
  TR_CO_RETURN_IF_ERROR(co_await ask(slice.server, head, nothing, room, answer));
  if (!answer->head.is_coded) {  // the server does not know what this worker has
    co_await take_values(slice, *memory, 0, have, into);
    co_return Status();
  }
  TR_CO_RETURN_IF_ERROR(co_await add_vector(rt_, coder, *memory, answer->bytes, have, slice.begin));
  co_await take_values(slice, have, slice.begin, nowhere, into);
  co_return Status();
}

Task<void> MailClient::take_values(Slice slice, Tensor from, std::int64_t first, Tensor have, Tensor into) {
  const auto bytes = static_cast<std::size_t>(slice.end - slice.begin) * sizeof(float);
  runtime::ComputeFn fn = [=](runtime::ComputeContext&) {
    const float* values = from.data<float>() + first;
    for (const Tensor& to : {have, into})
      if (!to.is_null()) std::memcpy(to.data<float>() + slice.begin, values, bytes);
  };
  const int copies = have.is_null() || into.is_null() ? 1 : 2;
  co_await short_pass(rt_, pass_cost(0, (1.0 + copies) * static_cast<double>(bytes)), std::move(fn), "take");
}

}  // namespace trireme::server
