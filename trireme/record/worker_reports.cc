#include "trireme/record/worker_reports.h"

#include <algorithm>

namespace trireme::record {
namespace {

// Numbers are added but for the largest ones, what is no number is the first worker's.
void add_rule(const Json& more, const std::vector<std::string>& largest, Json& to) {
  if (!more.is_object()) return;
  for (const auto& [key, value] : more.items()) {
    const bool adds = to.contains(key) && value.is_number() && to[key].is_number();
    if (!to.contains(key))
      to[key] = value;
    else if (adds && std::find(largest.begin(), largest.end(), key) != largest.end())
      to[key] = std::max(to[key], value);
    else if (adds && value.is_number_integer() && to[key].is_number_integer())
      to[key] = to[key].get<std::int64_t>() + value.get<std::int64_t>();
    else if (adds)
      to[key] = to[key].get<double>() + value.get<double>();
  }
}

}  // namespace

std::string final_words(const WorkerShare& share, const agree::RuleReport& rule) {
  Json staleness = Json::array();
  for (const auto& [behind, count] : rule.staleness) staleness.push_back({behind, count});
  const Json json = {{"steps", share.steps},
                     {"samples", share.samples},
                     {"compute", share.compute_seconds},
                     {"exposed", share.exposed_seconds},
                     {"waiting", share.waiting_seconds},
                     {"waits_for", share.waits_for},
                     {"data", share.data_seconds},
                     {"bytes", share.bytes_sent},
                     {"exchanges", rule.exchanges},
                     {"staleness", staleness},
                     {"rule", rule.more},
                     {"largest", rule.largest}};
  return json.dump();
}

void add_worker_reports(const std::map<int, std::string>& finals, const std::vector<int>& lost,
                        int num_workers, Summary& s) {
  std::int64_t exchanges = 0, steps = 0;
  double bytes = 0;
  for (int w = 0; w < num_workers; ++w) {
    WorkerShare share;
    share.worker = w;
    share.lost = std::find(lost.begin(), lost.end(), w) != lost.end();
    const auto text = finals.find(w);
    const Result<Json> json = text == finals.end() ? Status(Code::kNotFound, "")
                                                   : parse_json(text->second, "a worker's last words");
    if (json.ok()) {
      share.steps = json->value("steps", std::int64_t{0});
      share.samples = json->value("samples", std::int64_t{0});
      share.compute_seconds = json->value("compute", 0.0);
      share.exposed_seconds = json->value("exposed", 0.0);
      share.waiting_seconds = json->value("waiting", 0.0);
      share.waits_for = json->value("waits_for", -1);
      share.data_seconds = json->value("data", 0.0);
      share.bytes_sent = json->value("bytes", 0.0);
      exchanges += json->value("exchanges", std::int64_t{0});
      for (const auto& [behind, count] :
           json->value("staleness", std::vector<std::pair<std::int64_t, std::int64_t>>{}))
        s.staleness[behind] += count;
      if (json->contains("rule"))
        add_rule((*json)["rule"], json->value("largest", std::vector<std::string>{}), s.rule);
    }
    steps += share.steps;
    bytes += share.bytes_sent;
    s.compute_seconds += share.compute_seconds;
    s.exposed_seconds += share.exposed_seconds;
    s.data_wait_seconds += share.data_seconds;
    s.per_worker.push_back(share);
  }
  s.lost_workers = lost;
  s.rule["exchanges"] = exchanges;
  s.rule["local_steps"] = steps;
  const auto per_step = static_cast<double>(std::max<std::int64_t>(1, steps));
  s.bytes_sent_per_step = bytes / per_step;
  for (double* seconds : {&s.compute_seconds, &s.exposed_seconds, &s.data_wait_seconds}) *seconds /= per_step;
}

}  // namespace trireme::record
