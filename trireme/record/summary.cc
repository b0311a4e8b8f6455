#include "trireme/record/summary.h"

#include <algorithm>

namespace trireme::record {

double Summary::compute_fraction() const {
  return measured_step_seconds > 0 ? compute_seconds / measured_step_seconds : 0;
}

double Summary::exposed_comm_fraction() const {
  return measured_step_seconds > 0 ? exposed_seconds / measured_step_seconds : 0;
}

double Summary::data_wait_fraction() const {
  return measured_step_seconds > 0 ? data_wait_seconds / measured_step_seconds : 0;
}

std::optional<double> Summary::scaling_efficiency() const {
  if (workers == 1) return 1;
  if (predicted_one_worker_rate <= 0) return std::nullopt;
  return samples_per_second / (workers * predicted_one_worker_rate);
}

std::string Summary::scaling_efficiency_from() const {
  if (workers == 1) return "measured";
  return predicted_one_worker_rate > 0 ? "predicted" : "";
}

double Summary::communication_efficiency() const {
  // What workers that do not communicate would need is the time that is not exposed communication.
  return measured_step_seconds > 0 ? 1 - exposed_comm_fraction() : 1;
}

double Summary::mean_staleness() const {
  double sum = 0, count = 0;
  for (const auto& [clocks, updates] : staleness) {
    sum += static_cast<double>(clocks) * static_cast<double>(updates);
    count += static_cast<double>(updates);
  }
  return count > 0 ? sum / count : 0;
}

std::int64_t Summary::max_staleness() const { return staleness.empty() ? 0 : staleness.rbegin()->first; }

void attribute_waiting(std::vector<WorkerShare>& shares, int needed) {
  const auto per_step = [](const WorkerShare& s) {
    return (s.compute_seconds + s.data_seconds) / static_cast<double>(std::max<std::int64_t>(1, s.steps));
  };
  std::vector<const WorkerShare*> live;
  for (const WorkerShare& s : shares)
    if (!s.lost) live.push_back(&s);
  if (live.empty()) return;
  std::stable_sort(live.begin(), live.end(),
                   [&](const auto* a, const auto* b) { return per_step(*a) < per_step(*b); });
  const std::size_t last = needed > 0 ? std::min(live.size(), static_cast<std::size_t>(needed)) : live.size();
  const double longest = per_step(*live[last - 1]);
  const int culprit = live[last - 1]->worker;
  for (WorkerShare& s : shares) {
    const double waited = (longest - per_step(s)) * static_cast<double>(std::max<std::int64_t>(1, s.steps));
    s.waiting_seconds = std::clamp(waited, 0.0, std::max(0.0, s.exposed_seconds));
    s.waits_for = s.waiting_seconds > 0 && s.worker != culprit ? culprit : -1;
  }
}

void take_memory(const std::vector<WorkerShare>& shares, Summary& summary) {
  const auto take = [&](double WorkerShare::*field, std::vector<double>& to) {
    to.clear();
    for (const WorkerShare& s : shares) to.push_back(s.*field);
    if (std::any_of(to.begin(), to.end(), [](double bytes) { return bytes <= 0; })) to.clear();
  };
  take(&WorkerShare::peak_bytes, summary.peak_bytes);
  take(&WorkerShare::predicted_bytes, summary.predicted_bytes);
}

namespace {

const char* task_name(model::ModelTask task) {
  if (task == model::ModelTask::kLanguage) return "language";
  return task == model::ModelTask::kReconstruct ? "reconstruct" : "classify";
}

Json histogram_json(const std::map<std::int64_t, std::int64_t>& counts) {
  Json histogram = Json::object();
  for (const auto& [value, count] : counts) histogram[std::to_string(value)] = count;
  return histogram;
}

Json staleness_json(const Summary& s) {
  const Json histogram = histogram_json(s.staleness);
  return {{"mean", s.mean_staleness()}, {"max", s.max_staleness()}, {"histogram", histogram}};
}

Json shares_json(const std::vector<WorkerShare>& shares) {
  Json list = Json::array();
  for (const WorkerShare& w : shares) {
    list.push_back({{"worker", w.worker},
                    {"steps", w.steps},
                    {"samples", w.samples},
                    {"compute_seconds", w.compute_seconds},
                    {"exposed_comm_seconds", w.exposed_seconds},
                    {"waiting_seconds", w.waiting_seconds},
                    {"waits_for", w.waits_for < 0 ? Json() : Json(w.waits_for)},
                    {"data_wait_seconds", w.data_seconds},
                    {"bytes_sent", w.bytes_sent},
                    {"lost", w.lost}});
    if (!w.staleness.empty()) list.back()["staleness"] = histogram_json(w.staleness);
  }
  return list;
}

}  // namespace

Json to_json(const Summary& s) {
  const std::optional<double> efficiency = s.scaling_efficiency();
  Json json = {{"job", s.job},
               {"job_sha256", s.job_sha256},
               {"workers", s.workers},
               {"servers", s.servers},
               {"agreement", s.agreement},
               {"codec", s.codec},
               {"transport", s.transport},
               {"device", s.device},
               {"precision", s.precision},
               {"task", task_name(s.task)},
               {"steps", s.steps},
               {"skipped_steps", s.skipped_steps},
               {"epochs", s.epochs},
               {"samples", s.samples},
               {"wall_seconds", s.wall_seconds},
               {"samples_per_second", s.samples_per_second},
               {"train_loss", s.train_loss},
               {"train_accuracy", s.train_accuracy},
               {"test_loss", s.test_loss},
               {"test_accuracy", s.test_accuracy},
               {"bytes_sent_per_step", s.bytes_sent_per_step},
               {"bytes_dense_per_step", s.bytes_dense_per_step},
               {"compute_fraction", s.compute_fraction()},
               {"exposed_comm_fraction", s.exposed_comm_fraction()},
               {"data_wait_fraction", s.data_wait_fraction()},
               {"communication_efficiency", s.communication_efficiency()},
               {"scaling_efficiency", efficiency ? Json(*efficiency) : Json()},
               {"scaling_efficiency_from", efficiency ? Json(s.scaling_efficiency_from()) : Json()},
               {"staleness", staleness_json(s)},
               {"drift", s.drift},
               {"per_worker", shares_json(s.per_worker)},
               {"lost_workers", s.lost_workers},
               {"rule", s.rule},
               {"phases",
                {{"compute_seconds", s.compute_seconds},
                 {"exposed_comm_seconds", s.exposed_seconds},
                 {"data_wait_seconds", s.data_wait_seconds}}},
               {"checkpoint_seconds", s.checkpoint_seconds},
               {"updates_wait", s.updates_wait},
               {"predicted_step_seconds", s.predicted_step_seconds},
               {"measured_step_seconds", s.measured_step_seconds},
               {"calibrated", s.calibrated},
               {"predicted_measured_fraction", s.prediction.measured_fraction},
               {"parameters_sha256", s.parameters_sha256},
               {"reached_target", s.reached_target},
               {"stopped_early", s.stopped_early},
               {"codec_dense_steps", s.codec_dense_steps},
               {"learned", s.learned ? Json(*s.learned) : Json()},
               {"learned_reason", s.learned_reason},
               {"learned_key", s.learned_key},
               {"learned_advice", s.learned_advice},
               {"notes", s.notes},
               {"finished", s.finished},
               {"ok", s.ok}};
  if (s.zero > 0) json["zero"] = s.zero;
  if (s.tiles > 1 || s.pipeline) {
    json["mesh"] = s.mesh;
    json["bytes_by_axis"] = s.bytes_by_axis;
    json["exposed_by_axis"] = s.exposed_by_axis;
  }
  if (s.tiles > 1) {
    json["style"] = s.style;
    json["logical_tiles"] = s.tiles;
  }
  if (s.pipeline) add_to_json(*s.pipeline, json);
  if (!s.peak_bytes.empty()) json["peak_bytes_per_rank"] = s.peak_bytes;
  if (!s.predicted_bytes.empty()) json["predicted_bytes_per_rank"] = s.predicted_bytes;
  if (!s.has_test) json.erase("test_loss"), json.erase("test_accuracy");
  if (s.best) {
    json["best"] = to_json(*s.best);
    json["best"].erase("since");
  }
  if (s.validation)
    json["validation_loss"] = s.validation->loss, json["validation_accuracy"] = s.validation->accuracy;
  return json;
}

}  // namespace trireme::record
