// A job that this program starts on several processes of this host: each is this program again. Prints:
//   ~ 2 workers, [0-9]+ steps, test accuracy [5-9][0-9]\.[0-9] %
#include <cstdlib>
#include <filesystem>

#include "trireme/start/exit_code.h"
#include "trireme/start/run_rank.h"
#include "trireme/start/train_on_host.h"
using namespace trireme;

const char* environment(const char* name) { return std::getenv(name); }

int fail(const Status& status) {
  fmt::print(stderr, "{}\n", status.message());
  return start::exit_code_of(status);
}

// A process that train_on_host() started: its job is in the run folder.
int be_a_rank(const launch::RankIdentity& id, const char* run_dir) {
  start::RankStart rank;
  rank.id = id;
  rank.prepared_dir = run_dir;
  rank.places = start::usual_places(environment);
  const start::RankEnd end = start::run_rank(rank);
  return end.failure.ok() ? 0 : fail(end.failure);
}

int main(int argc, char** argv) {
  const auto id = launch::rank_from_environment(environment);
  if (!id.ok()) return fail(id.status());
  if (id->has_value() && argc == 2) return be_a_rank(**id, argv[1]);

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "trireme-example-run";
  std::filesystem::remove_all(folder);
  start::HostRun run;
  for (const char* key : {"parallel.workers=2", "train.steps=60", "data.limit_train=4000"})
    TR_CHECK(job::set_job_key(run.job, key).ok());
  run.run_dir = folder;
  run.places = start::usual_places(environment);
  run.rank_command = [](const std::string& run_dir) { return std::vector<std::string>{"", run_dir}; };
  run.observer.line = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
  const Result<start::Trained> trained = start::train_on_host(run);
  if (!trained.ok()) return fail(trained.status());
  const Json& s = trained->summary;
  fmt::print("{} workers, {} steps, test accuracy {:.1f} %\n", s.value("workers", 0), s.value("steps", 0),
             100 * s.value("test_accuracy", 0.0));
  std::filesystem::remove_all(folder);
}
