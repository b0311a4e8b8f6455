#include "trireme/train/server_role.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/comm/member_mailbox.h"
#include "trireme/comm/split_mailbox.h"
#include "trireme/job/job_parts.h"
#include "trireme/model/optimizer.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/prepare/server_factors.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/coordinator_letters.h"
#include "trireme/train/server_state.h"

namespace trireme::train {
namespace {

using runtime::Task;

// Rules that scale by the norms of a whole tensor cannot work on pieces of it.
bool wants_whole_tensors(const job::Job& job) { return job.train.optimizer.kind == "lars"; }

// The job's optimiser over flat pieces of parameters.
Result<server::UpdateSpec> job_update(const job::Job& job, const job::Sending& sending,
                                      std::span<const server::StoredPart> parts) {
  std::vector<model::Parameter> parameters;
  for (const server::StoredPart& part : parts) {
    model::Parameter p;
    p.name = part.name;
    p.type = {DType::kF32, {part.count}};
    parameters.push_back(std::move(p));
  }
  TR_ASSIGN_OR_RETURN(model::UpdateGraph update,
                      model::build_update(job::optimizer_spec(job, sending), parameters));
  server::UpdateSpec spec;
  for (const model::StateVariable& s : update.states) spec.states.push_back({s.name, s.type, s.initial});
  spec.graph = std::move(update.graph);
  return spec;
}

}  // namespace

namespace {

// The key of a bucket; nothing: the tile has none of its parameters for itself.
std::optional<server::Key> key_of(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                                  const std::function<bool(const std::string&)>& keeps, bool whole_tensors) {
  server::Key key;
  key.name = fmt::format("bucket {}", bucket.slot);
  key.num_elems = bucket.num_elems;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const auto p = std::find_if(parameters.begin(), parameters.end(),
                                [&](const auto& q) { return q.name == bucket.parameters[i]; });
    TR_CHECK(p != parameters.end(), "buckets name parameters of the model");
    if (!keeps(p->name)) continue;
    const bool factored = bucket.sends_factors();
    const std::int64_t row = factored ? p->type.shape[1] : 1;
    key.parts.push_back({p->name, bucket.offsets[i], p->type.shape.num_elems(), row, whole_tensors});
  }
  if (key.parts.empty() && !bucket.parameters.empty()) return std::nullopt;
  return key;
}

// Slices of keys that are not kept go; those of a further tile begin at a further server, so that what is
// too small to be cut is spread.
void keep_own(server::ServerLayout& layout, const std::vector<bool>& kept, int tile) {
  std::erase_if(layout.slices, [&](const server::Slice& s) { return !kept[s.key]; });
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    server::Slice& s = layout.slices[i];
    s.id = static_cast<std::uint32_t>(i);
    s.server = (s.server + tile) % layout.num_servers;
  }
}

}  // namespace

Result<ServerPlan> plan_servers(const job::Job& job, const prepare::Prepared& prepared,
                                const job::Roles& roles, int tile) {
  const std::vector<model::Parameter> parameters = prepare::parameters_of_tile(prepared, tile);
  const auto keeps = [&](const std::string& name) { return tile == 0 || prepared.wholes.contains(name); };
  ServerPlan out;
  std::vector<bool> kept;
  for (const plan::Bucket& bucket : prepared.plan.buckets) {
    std::optional<server::Key> key = key_of(bucket, parameters, keeps, wants_whole_tensors(job));
    kept.push_back(key.has_value());
    if (!key) key = server::Key{fmt::format("bucket {}", bucket.slot), bucket.num_elems, {}};
    out.keys.push_back(std::move(*key));
  }
  TR_ASSIGN_OR_RETURN(out.layout, server::make_layout(out.keys, roles.servers));
  keep_own(out.layout, kept, tile);
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* row, agree::find_agreement(prepared.plan.agreement));
  out.link = agree::link_coding_of(*row, job::rule_options(job, prepared.sending));
  out.link.factors = prepare::factor_keys(prepared);
  if (prepared.sending.is(job::Sending::Kind::kMixed))
    for (const plan::Bucket& bucket : prepared.plan.buckets)
      out.link.codings.push_back(prepare::bucket_coding(job, prepared.sending, bucket));
  return out;
}

Result<server::ServerOptions> job_server_options(const job::Job& job, const prepare::Prepared& prepared,
                                                 const job::Roles& roles, int server, int tile) {
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* row, agree::find_agreement(prepared.plan.agreement));
  TR_ASSIGN_OR_RETURN(
      server::ServerOptions options,
      agree::server_options_of(*row, job::rule_options(job, prepared.sending), roles.num_replicas()));
  TR_ASSIGN_OR_RETURN(ServerPlan planned, plan_servers(job, prepared, roles, tile));
  options.server = server;
  options.layout = std::move(planned.layout);
  options.keys = std::move(planned.keys);
  options.link = std::move(planned.link);
  if (!options.link.factors.empty()) options.make_product = prepare::product_maker(prepared);
  if (!row->updates_here)
    options.make_update = [job, sending = prepared.sending](std::span<const server::StoredPart> parts) {
      return job_update(job, sending, parts);
    };
  return options;
}

int served_number(const job::Roles& roles, int server, int tile) {
  return server * roles.num_places() + tile;
}

comm::Mailbox& JobServers::mail_of(comm::Mailbox& all, int tile) const {
  return places_.empty() ? all : *places_[static_cast<std::size_t>(tile)];
}

Result<std::unique_ptr<JobServers>> JobServers::make(runtime::Runtime& rt, comm::Mailbox& mail,
                                                     const job::Job& job, const prepare::Prepared& prepared,
                                                     const job::Roles& roles, int rank) {
  std::unique_ptr<JobServers> out(new JobServers());
  const std::vector<int> here = roles.servers_on(rank);
  if (here.empty()) return out;
  const int places = roles.num_places();
  if (places > 1) {
    std::vector<int> place_of;
    for (int worker = 0; worker < roles.workers; ++worker) place_of.push_back(roles.place_of(worker));
    out->split_ = comm::split_mailbox(mail, std::move(place_of));
    for (int place = 0; place < places; ++place)
      out->places_.push_back(comm::make_member_mailbox(*out->split_[static_cast<std::size_t>(place)],
                                                       roles.replicas_seen_from(place)));
  }
  for (const int s : here)
    for (int tile = 0; tile < places; ++tile) {
      TR_ASSIGN_OR_RETURN(server::ServerOptions options, job_server_options(job, prepared, roles, s, tile));
      TR_ASSIGN_OR_RETURN(auto made, server::make_server(rt, out->mail_of(mail, tile), std::move(options)));
      out->state_[served_number(roles, s, tile)] = made->state();
      out->servers_.push_back(std::move(made));
    }
  return out;
}

std::vector<int> expendable_workers(const job::Job& job, const job::Roles& roles) {
  const auto row = agree::find_agreement(job.parallel.agreement);
  if (!row.ok() || ((*row)->pace != agree::Pace::kFree && (*row)->pace != agree::Pace::kBound)) return {};
  return roles.spare_ranks();
}

Task<Status> start_together(comm::Group& group, const job::Job& job, const job::Roles& roles) {
  comm::Call call;
  call.slot = plan::kSlotReady;
  call.label = "start";
  TR_CO_RETURN_IF_ERROR(co_await group.barrier(std::move(call)));
  std::vector<int> expendable = expendable_workers(job, roles);
  if (expendable.empty()) co_return Status();
  co_return group.set_expendable(std::move(expendable));
}

Task<Result<record::Summary>> serve(RankContext& context, comm::Group& group, job::Roles roles,
                                    const StartState& start, KeepUntilLeft& keep) {
  runtime::Runtime& rt = *context.rt;
  comm::Mailbox& mail = group.mailbox();
  TR_CO_ASSIGN_OR_RETURN(std::shared_ptr<JobServers> servers,
                         JobServers::make(rt, mail, context.job, *start.prepared, roles, group.rank()));
  keep.push_back(servers);
  ServedState served = servers->state();
  if (start.resumed) {
    TR_CO_ASSIGN_OR_RETURN(std::vector<StatePiece> pieces,
                           server_state_pieces(context.job, *start.prepared, roles));
    TR_CO_RETURN_IF_ERROR(
        co_await read_server_state(start.stored, std::move(pieces), roles, group.rank(), served));
  }
  KeptState kept(rt, mail);
  for (auto& [number, tensors] : served) kept.keep(number, std::move(tensors));
  kept.answer();
  runtime::OneShot<bool> end(rt);
  mail.handle<EndHead>({nullptr, [&end](int, const comm::Letter<EndHead>&) { end.set(true); }});
  TR_CO_RETURN_IF_ERROR(co_await start_together(group, context.job, roles));
  constexpr TimeNs kLook = 100 * kMilli;  // letters stop coming when the group has failed
  while (group.verdict().ok() && !co_await end.wait_until(rt.now() + kLook)) {
  }
  mail.stop_handling<EndHead>();
  if (!group.verdict().ok()) co_return group.verdict();
  record::Summary summary;
  summary.job = context.job.name;
  summary.workers = roles.workers;
  summary.servers = roles.servers;
  summary.agreement = start.prepared->plan.agreement;
  summary.finished = summary.ok = true;
  co_return summary;
}

}  // namespace trireme::train
