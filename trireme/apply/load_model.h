// load_model: a trained model from a run folder, or from a checkpoint and a job file, ready to run forward.
// Holds parameters and running statistics; nothing of training is allocated. Where the ranks of a mesh load
// it together each has its part of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/apply/model_part.h"
#include "trireme/data/dataset.h"
#include "trireme/exec/executor.h"
#include "trireme/io/stored_tensors.h"
#include "trireme/job/job.h"
#include "trireme/model/zoo.h"
#include "trireme/plan/plan.h"

namespace trireme::apply {

struct ModelSource {
  std::string path;               // a run folder, or with `job_path` whatever io/reader.h reads
  std::string job_path;           // empty: job.toml of the run folder
  std::string checkpoint;         // empty: the newest whole one of `path`
  bool best = false;              // instead: the one of the best evaluation
  std::vector<std::string> sets;  // "data.path=..."; keys of [data] only
  std::string cache_dir;          // of drawn and decoded samples; empty: none
  std::string device;             // cpu, cuda or auto; empty: where it was trained, if there is a GPU
  // False: what the checkpoint keeps of its data is enough (data_record.h), and the data is not read.
  bool needs_samples = true;
  bool needs_text = true;  // the same of language models
  // Not empty: the generation or file to read. Whoever started this rank has chosen and verified it.
  std::string verified;
  int local_rank = 0;  // among the ranks of this host, of which each takes a GPU
};

struct LoadedModel {
  job::Job job;
  std::string weights_path;     // where the tensors come from
  std::int64_t step = -1;       // after which step they were saved; -1: not known
  std::int64_t last_step = -1;  // of the finished run; -1: it is unfinished, or there is no run folder
  std::shared_ptr<const data::Dataset> data;  // without samples where they were not asked for
  model::ModelInput input;
  std::vector<model::Parameter> parameters;    // trained and frozen, in order of use
  std::shared_ptr<const plan::Plan> plan;      // of the run; null: there is none
  std::unique_ptr<exec::Variables> variables;  // what the evaluation graph reads, or this rank's part of it
  std::shared_ptr<ModelPart> part;             // null: this process has the whole model
  std::shared_ptr<Device> device;              // a GPU to run on; null: the host
  std::shared_ptr<exec::DeviceMirror> mirror;  // of the variables, on the GPU
  std::vector<std::string> notes;              // what the user should know

  int threads = 1;                              // of a batch
  int slots(const runtime::Runtime& rt) const;  // batches at once
};

// A model whose tensors are still in their files: who asks for it knows what it would be.
struct OpenedModel {
  LoadedModel model;  // without variables and device
  std::shared_ptr<io::StoredTensors> files;
  ModelSource source;
};

// Errors: kInvalid: no run folder, keys that may not be set, a job that makes no sense, tensors that do not
// fit its model. kNotFound: no checkpoint yet, or missing data. kCorrupt: damaged files. kUnavailable: a GPU
// was asked for and there is none.
runtime::Task<Result<LoadedModel>> load_model(runtime::Runtime& rt, ModelSource source);
// The same in two steps.
runtime::Task<Result<OpenedModel>> open_model(runtime::Runtime& rt, ModelSource source);
runtime::Task<Result<LoadedModel>> read_model(runtime::Runtime& rt, OpenedModel opened);
// Whether an opened model can be cut over the model axis of a mesh, before ranks are started. kInvalid names
// the tensor, or what the style of its job lacks.
Status check_cut(const LoadedModel& model, const parallel::Mesh& mesh);
// The second step of the ranks of a mesh, which all have opened the model: each reads its part. Collective;
// `group`, the ranks of the mesh, outlives the model. kCorrupt: ranks see different files.
runtime::Task<Result<LoadedModel>> read_model_part(runtime::Runtime& rt, OpenedModel opened,
                                                   comm::Group& group, parallel::Mesh mesh);

// The evaluation graph for batches of `batch` samples with the given outputs ("loss", "correct", "logits"),
// or this rank's part of it: collective then. Kernels and threads are those of the run's plan, so that losses
// have the same bits; where this host lacks one of them, the best ones here.
runtime::Task<Result<std::shared_ptr<const exec::CompiledGraph>>> compile_forward(
    runtime::Runtime& rt, const LoadedModel& model, std::int64_t batch, std::vector<std::string> outputs);

// How batches of that graph are run.
Result<std::unique_ptr<engine::Evaluator>> make_evaluator(runtime::Runtime& rt, const LoadedModel& model,
                                                          std::shared_ptr<const data::Dataset> data,
                                                          std::shared_ptr<const exec::CompiledGraph> graph,
                                                          std::int64_t batch);

}  // namespace trireme::apply
