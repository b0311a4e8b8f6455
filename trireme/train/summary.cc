#include "trireme/train/summary.h"

namespace trireme::train {

double Summary::compute_fraction() const {
  return measured_step_seconds > 0 ? compute_seconds / measured_step_seconds : 0;
}

double Summary::exposed_comm_fraction() const {
  return measured_step_seconds > 0 ? exposed_seconds / measured_step_seconds : 0;
}

double Summary::data_wait_fraction() const {
  return measured_step_seconds > 0 ? data_wait_seconds / measured_step_seconds : 0;
}

namespace {

const char* task_name(model::ModelTask task) {
  if (task == model::ModelTask::kLanguage) return "language";
  return task == model::ModelTask::kReconstruct ? "reconstruct" : "classify";
}

}  // namespace

Json to_json(const Summary& s) {
  // Against workers that do not communicate: what they would need is the time that is not exposed
  // communication.
  const double efficiency = s.measured_step_seconds > 0 ? 1 - s.exposed_comm_fraction() : 1;
  Json json = {{"job", s.job},
               {"workers", s.workers},
               {"servers", 0},
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
               {"scaling_efficiency", efficiency},
               {"staleness", {{"mean", 0}, {"max", 0}}},
               {"drift", 0},
               {"phases",
                {{"compute_seconds", s.compute_seconds},
                 {"exposed_comm_seconds", s.exposed_seconds},
                 {"data_wait_seconds", s.data_wait_seconds}}},
               {"checkpoint_seconds", s.checkpoint_seconds},
               {"updates_wait", s.updates_wait},
               {"predicted_step_seconds", s.predicted_step_seconds},
               {"measured_step_seconds", s.measured_step_seconds},
               {"parameters_sha256", s.parameters_sha256},
               {"reached_target", s.reached_target},
               {"finished", s.finished},
               {"ok", s.ok}};
  if (s.validation)
    json["validation_loss"] = s.validation->loss, json["validation_accuracy"] = s.validation->accuracy;
  return json;
}

Result<Summary> summary_from_json(const Json& json) {
  Summary s;
  TR_ASSIGN_OR_RETURN(s.job, json_get<std::string>(json, "job"));
  TR_ASSIGN_OR_RETURN(s.workers, json_get<int>(json, "workers"));
  TR_ASSIGN_OR_RETURN(s.transport, json_get<std::string>(json, "transport"));
  TR_ASSIGN_OR_RETURN(s.steps, json_get<std::int64_t>(json, "steps"));
  TR_ASSIGN_OR_RETURN(s.samples, json_get<std::int64_t>(json, "samples"));
  TR_ASSIGN_OR_RETURN(s.wall_seconds, json_get<double>(json, "wall_seconds"));
  TR_ASSIGN_OR_RETURN(s.samples_per_second, json_get<double>(json, "samples_per_second"));
  TR_ASSIGN_OR_RETURN(s.test_accuracy, json_get<double>(json, "test_accuracy"));
  TR_ASSIGN_OR_RETURN(s.parameters_sha256, json_get<std::string>(json, "parameters_sha256"));
  TR_ASSIGN_OR_RETURN(s.finished, json_get<bool>(json, "finished"));
  TR_ASSIGN_OR_RETURN(s.ok, json_get<bool>(json, "ok"));
  return s;
}

}  // namespace trireme::train
