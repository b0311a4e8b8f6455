#include "trireme/train/server_role.h"

#include <algorithm>

#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/job/job_parts.h"
#include "trireme/model/optimizer.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/server_factors.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/coordinator_letters.h"
#include "trireme/train/replica_mail.h"
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

Result<ServerPlan> plan_servers(const job::Job& job, const prepare::Prepared& prepared,
                                const job::Roles& roles) {
  ServerPlan out;
  for (const plan::Bucket& bucket : prepared.plan.buckets) {
    server::Key key;
    key.name = fmt::format("bucket {}", bucket.slot);
    key.num_elems = bucket.num_elems;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const auto p = std::find_if(prepared.parameters.begin(), prepared.parameters.end(),
                                  [&](const auto& q) { return q.name == bucket.parameters[i]; });
      TR_CHECK(p != prepared.parameters.end(), "buckets name parameters of the model");
      const bool factored = bucket.sends_factors();
      const std::int64_t row = factored ? p->type.shape[1] : 1;
      key.parts.push_back(
          {p->name, bucket.offsets[i], p->type.shape.num_elems(), row, wants_whole_tensors(job)});
    }
    out.keys.push_back(std::move(key));
  }
  TR_ASSIGN_OR_RETURN(out.layout, server::make_layout(out.keys, roles.servers));
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* row, agree::find_agreement(prepared.plan.agreement));
  out.link = agree::link_coding_of(*row, job::rule_options(job, prepared.sending));
  out.link.factors = prepare::factor_keys(prepared);
  if (prepared.sending.is(job::Sending::Kind::kMixed))
    for (const plan::Bucket& bucket : prepared.plan.buckets)
      out.link.codings.push_back(prepare::bucket_coding(job, prepared.sending, bucket));
  return out;
}

Result<server::ServerOptions> job_server_options(const job::Job& job, const prepare::Prepared& prepared,
                                                 const job::Roles& roles, int server) {
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* row, agree::find_agreement(prepared.plan.agreement));
  TR_ASSIGN_OR_RETURN(
      server::ServerOptions options,
      agree::server_options_of(*row, job::rule_options(job, prepared.sending), roles.num_replicas()));
  TR_ASSIGN_OR_RETURN(ServerPlan planned, plan_servers(job, prepared, roles));
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

Result<std::unique_ptr<server::Server>> make_job_server(runtime::Runtime& rt, comm::Mailbox& mail,
                                                        const job::Job& job,
                                                        const prepare::Prepared& prepared,
                                                        const job::Roles& roles, int server) {
  TR_ASSIGN_OR_RETURN(server::ServerOptions options, job_server_options(job, prepared, roles, server));
  return server::make_server(rt, mail, std::move(options));
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

namespace {
// The server goes before what it writes with.
struct KeptServer {
  std::shared_ptr<ReplicaMail> mail;
  std::unique_ptr<server::Server> server;
};
}  // namespace

Task<Result<record::Summary>> serve(RankContext& context, comm::Group& group, job::Roles roles,
                                    const StartState& start, KeepUntilLeft& keep) {
  runtime::Runtime& rt = *context.rt;
  comm::Mailbox& mail = group.mailbox();
  const auto among_replicas = std::make_shared<ReplicaMail>(mail, roles.replicas(), roles.replicas());
  ServedState served;
  for (const int s : roles.servers_on(group.rank())) {
    auto made = make_job_server(rt, **among_replicas, context.job, *start.prepared, roles, s);
    if (!made.ok()) co_return made.status();
    served[s] = (*made)->state();
    keep.push_back(std::make_shared<KeptServer>(KeptServer{among_replicas, std::move(*made)}));
  }
  if (start.resumed) {
    TR_CO_ASSIGN_OR_RETURN(std::vector<StatePiece> pieces,
                           server_state_pieces(context.job, *start.prepared, roles));
    TR_CO_RETURN_IF_ERROR(co_await read_server_state(start.stored, std::move(pieces), group.rank(), served));
  }
  KeptState kept(rt, mail);
  for (auto& [server, tensors] : served) kept.keep(server, std::move(tensors));
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
