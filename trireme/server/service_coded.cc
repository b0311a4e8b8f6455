#include <cstring>

#include "trireme/base/rng.h"
#include "trireme/server/service.h"

namespace trireme::server {

using runtime::Task;

// The push becomes a dense one. What the message does not speak of is zero.
Task<Status> Service::decode(KeptSlice& slice, Push& push) {
  const StoredSlice& stored = slice.stored();
  TR_CO_ASSIGN_OR_RETURN(const Loan values, pool_.take(stored.num_elems()));
  runtime::ComputeFn clear = [&](runtime::ComputeContext&) {
    std::memset(values->raw(), 0, stored.num_bytes());
  };
  const auto bytes = static_cast<double>(stored.num_bytes());
  co_await short_pass(rt_, pass_cost(0, bytes), std::move(clear), "server clear");
  const Status added = co_await add_vector(rt_, *slice.coder, *push.values, push.coded_bytes, *values);
  if (!added.ok())
    co_return error(Code::kCorrupt, "[server] a coded push of rank {} for slice {}: {}", push.id.worker,
                    stored.slice.id, added.message());
  push.values = values;
  push.coded_bytes = 0;
  ++stats_.coded_pushes;
  co_return Status();
}

// `had` follows what the worker computes from the answers, to the bit: what one message leaves out is part of
// the next difference. The worker asks again only when it has the answer, so `had` can be sent itself.
Task<Status> Service::answer_kept(KeptSlice& slice, Pull pull) {
  const StoredSlice& stored = slice.stored();
  const Question& question = pull.question;
  ServerAnswer head = slice.answer_now();
  Loan& kept = slice.had[question.peer];
  const bool codes =
      kept != nullptr && slice.coder != nullptr && pull.takes_coded && slice.coder->encodes_at(pull.exchange);
  if (kept == nullptr) {
    TR_CO_ASSIGN_OR_RETURN(kept, pool_.take(stored.num_elems()));
  }
  const Loan had = kept;  // a worker that is lost meanwhile takes its entry along
  const auto bytes = static_cast<double>(stored.num_bytes());
  if (!codes) {
    runtime::ComputeFn copy = [&](runtime::ComputeContext&) {
      std::memcpy(had->raw(), stored.values.raw(), stored.num_bytes());
    };
    co_await short_pass(rt_, pass_cost(0, 2 * bytes), std::move(copy), "server copy");
    const net::View view{had->raw(), stored.num_bytes()};
    send_answer(nullptr, question, head, had, view);
    co_return Status();
  }
  TR_CO_ASSIGN_OR_RETURN(const Loan difference, pool_.take(stored.num_elems()));
  runtime::ComputeFn subtract = [&](runtime::ComputeContext&) {
    const std::span<float> to = difference->values<float>();
    const float *now = stored.values.data<float>(), *before = had->data<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = now[i] - before[i];
  };
  co_await short_pass(rt_, pass_cost(bytes / 4, 3 * bytes), std::move(subtract), "server difference");
  TR_CO_ASSIGN_OR_RETURN(const Loan memory, pool_.take(VectorCoder::num_elems_for(slice.coder->max_bytes())));
  ToEncode from;
  from.values = *difference;
  from.exchange = pull.exchange;
  from.key = mix_key(stored.slice.id, static_cast<std::uint64_t>(question.peer),
                     static_cast<std::uint64_t>(pull.exchange));
  TR_CO_ASSIGN_OR_RETURN(const std::uint64_t length,
                         co_await encode_vector(rt_, *slice.coder, std::move(from), *memory));
  TR_CO_RETURN_IF_ERROR(co_await add_vector(rt_, *slice.coder, *memory, length, *had));
  ++stats_.coded_pulls;
  head.is_coded = true;
  const net::View view{memory->raw(), length};
  send_answer(nullptr, question, head, memory, view);
  co_return Status();
}

}  // namespace trireme::server
