// Trained models that the ranks of a mesh judge together on a GPU that they share.
#include <gmock/gmock.h>

#include "tests/kernel_cuda/needs_gpu.h"
#include "tests/train/trained_runs.h"
#include "trireme/apply/predict.h"
#include "trireme/job/roles.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/start/mesh_ranks.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;

// Judges its part of a model.
class Judging final : public start::RankWork {
 public:
  Judging(apply::ModelSource source, const parallel::Mesh& mesh, std::vector<apply::Score>& scores)
      : source_(std::move(source)), mesh_(mesh), scores_(scores) {}
  Task<Status> prepare(Runtime& rt) override {
    Result<apply::OpenedModel> opened = co_await apply::open_model(rt, source_);
    if (opened.ok()) opened_ = std::make_unique<apply::OpenedModel>(std::move(*opened));
    co_return opened.status();
  }
  TimeNs deadline() const override { return 2 * kSecond; }
  Task<Status> run(Runtime& rt, comm::Group& group) override {
    auto model = co_await apply::read_model_part(rt, std::move(*opened_), group, mesh_);
    if (!model.ok()) co_return model.status();
    EXPECT_EQ(model->device != nullptr, source_.device == "cuda");
    auto score = co_await apply::score_model(rt, *model, engine::Part::kTest);
    if (score.ok() && model->part->is_first()) scores_.push_back(std::move(*score));
    co_return score.status();
  }

 private:
  const apply::ModelSource source_;
  const parallel::Mesh& mesh_;
  std::vector<apply::Score>& scores_;
  std::unique_ptr<apply::OpenedModel> opened_;
};

class MeshJudgesOnGpu : public testing::TrainedRuns {
 protected:
  void SetUp() override {
    static const auto opened = kernel::cuda::open_device(0);
    TR_NEEDS_GPU(opened.ok() ? "" : opened.status().message());
  }
  apply::Score score_on(const std::string& name, const std::string& text, const std::string& device) {
    job::Job job;
    job.parallel.mesh = text;
    job::take_workers_of_mesh(job, false);
    const parallel::Mesh mesh = *job::mesh_of(job);
    apply::ModelSource source;
    source.path = path(name);
    source.device = device;
    std::vector<apply::Score> scores;
    const std::vector<Status> ranks =
        start::run_mesh_threads(mesh, [&](int) { return std::make_unique<Judging>(source, mesh, scores); });
    for (std::size_t r = 0; r < ranks.size(); ++r)
      EXPECT_TRUE(ranks[r].ok()) << text << " on " << device << ", rank " << r << ": "
                                 << ranks[r].to_string();
    EXPECT_EQ(scores.size(), 1U);
    return scores.empty() ? apply::Score() : scores[0];
  }
};

TEST_F(MeshJudgesOnGpu, AsTheHostDoesWithinRounding) {
  write("text.txt", testing::small_text());
  train("norm", testing::batch_norm_job());
  train("text", testing::text_job(path("text.txt")));
  for (const char* name : {"norm", "text"})
    for (const char* mesh : {"model=2", "data=2,model=2"}) {
      SCOPED_TRACE(fmt::format("{} on {}", name, mesh));
      const apply::Score here = score_on(name, mesh, "cpu"), there = score_on(name, mesh, "cuda");
      EXPECT_EQ(there.samples, here.samples);
      EXPECT_NEAR(there.loss, here.loss, 1e-4 * here.loss);
      EXPECT_NEAR(there.accuracy, here.accuracy, 0.01);
    }
}

}  // namespace
}  // namespace trireme::train
