// `trireme inspect ops|models|agreements|collectives|job`: the tables, as text or JSON. `inspect op` is in
// inspect_op.cc, `inspect schedule` in inspect_schedule.cc.
#include <cstdio>

#include "trireme/agree/agree.h"
#include "trireme/base/json.h"
#include "trireme/cli/commands.h"
#include "trireme/collective/schedule.h"
#include "trireme/kernel/kernel.h"
#include "trireme/model/zoo.h"
#include "trireme/op/op.h"
#include "trireme/train/job.h"

namespace trireme::cli {
namespace {

Json list_ops() {
  Json rows = Json::array();
  for (const op::OpDef* def : op::op_table()) {
    Json kernels = Json::array();
    if (def->reference != nullptr) kernels.push_back("reference");
    for (const op::KernelRow& row : kernel::cpu_kernels())
      if (def->name == row.op) kernels.push_back(row.name);
    rows.push_back({{"name", def->name},
                    {"family", def->family},
                    {"has_grad", def->grad != nullptr},
                    {"has_cost", def->cost != nullptr},
                    {"has_layout", def->layout != nullptr},
                    {"devices", def->has(op::kHostOp) ? Json::array({"host"}) : Json::array({"cpu"})},
                    {"kernels", kernels},
                    {"doc", def->doc}});
  }
  return rows;
}

Json list_models() {
  Json rows = Json::array();
  for (const model::ZooRow& row : model::zoo()) rows.push_back({{"name", row.name}, {"doc", row.doc}});
  return rows;
}

Json list_agreements() {
  Json rows = Json::array();
  for (const agree::AgreementRow& row : agree::agreement_table())
    rows.push_back({{"name", row.name},
                    {"needs_server", row.needs_server},
                    {"synchronous", row.synchronous},
                    {"paper", row.paper},
                    {"doc", row.doc}});
  return rows;
}

Json list_collectives() {
  Json rows = Json::array();
  for (const collective::Algorithm& row : collective::algorithm_table())
    rows.push_back({{"name", row.name},
                    {"kind", collective::kind_name(row.kind)},
                    {"fixed_order", row.fixed_order},
                    {"doc", row.doc}});
  return rows;
}

Json list_job_keys() {
  Json rows = Json::array();
  for (const train::JobKey& key : train::job_keys())
    rows.push_back({{"name", key.path}, {"decides_result", key.decides_result}, {"doc", key.doc}});
  return rows;
}

struct Topic {
  const char* name;
  const char* doc;
  Json (*list)();
};
constexpr Topic kTopics[] = {
    {"ops", "Every op, with what it has.", list_ops},
    {"models", "The model zoo.", list_models},
    {"agreements", "How replicas keep one model.", list_agreements},
    {"collectives", "Collective algorithms.", list_collectives},
    {"job", "Keys of a job file.", list_job_keys},
};

void print_rows(const Json& rows) {
  for (const Json& row : rows)
    std::fputs(
        fmt::format("{:<30} {}\n", row["name"].get<std::string>(), row["doc"].get<std::string>()).c_str(),
        stdout);
}

}  // namespace

std::function<int()> add_inspect(CLI::App& app) {
  app.require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "As JSON");
  for (const Topic& topic : kTopics) {
    CLI::App* sub = app.add_subcommand(topic.name, topic.doc);
    sub->add_flag("--json", *json, "As JSON");
    sub->callback([json, list = topic.list] {
      const Json rows = list();
      if (*json) std::fputs((rows.dump(2) + "\n").c_str(), stdout);
      if (!*json) print_rows(rows);
    });
  }
  return [one_op = add_inspect_op(app), schedule = add_inspect_schedule(app)] {
    const int code = one_op();
    return code == kExitOk ? schedule() : code;
  };
}

}  // namespace trireme::cli
