#include "trireme/measure/step/workloads.h"

#include <algorithm>

#include "trireme/base/rng.h"
#include "trireme/data/options.h"
#include "trireme/job/job_parts.h"

namespace trireme::measure {
namespace {

constexpr const char* kLenet[] = {"model.name=mnist-cnn", "model.options={dropout=0}"};
constexpr const char* kSpeech[] = {"model.name=speech-42m"};
constexpr const char* kAlexnet[] = {"model.name=alexnet"};
constexpr const char* kResnet50[] = {"model.name=resnet50"};
constexpr const char* kGpt[] = {"model.name=char-gpt", "model.options={width=384, layers=6, heads=6}",
                                "data.kind=text",      "data.path=made-up",
                                "data.context=256",    "train.optimizer.kind=adamw"};
constexpr const char* kLstm[] = {"model.name=char-lstm", "model.options={width=512, dropout=0}",
                                 "data.path=made-up",    "data.context=128",
                                 "data.kind=text",       "train.optimizer.kind=adamw"};

constexpr const char* kGpt2[] = {"model.name=char-gpt", "model.options={width=768, layers=12, heads=12}",
                                 "data.kind=text",      "data.path=made-up",
                                 "data.context=1024",   "train.optimizer.kind=adamw"};

constexpr Workload kWorkloads[] = {
    {"lenet", "Convolutions of 32 and 64 channels, 512 hidden units.", 256, 0, kLenet},
    {"speech", "DistBelief's acoustic model of 42 million parameters.", 1024, 4096, kSpeech},
    {"alexnet", "AlexNet in one tower, 224 x 224.", 64, 1024, kAlexnet},
    {"resnet50", "ResNet-50, 224 x 224.", 32, 256, kResnet50},
    {"gpt", "GPT of 6 layers, 384 wide, 256 tokens of context.", 16, 0, kGpt},
    {"lstm", "Two LSTMs of 512 units, 128 tokens of context.", 32, 0, kLstm},
    {"gpt2", "GPT-2 of 124 million parameters, 1024 tokens of context, vocabulary of 50304.", 0, 32, kGpt2},
};
constexpr std::int64_t kCharacters = 65, kWords = 50304;

constexpr std::int64_t kQuickShare = 16;
constexpr std::uint64_t kSeed = 7;

void make_texts(const job::Job& job, Philox& random, data::Dataset& set) {
  const std::int64_t context = job.data.options.integer(data::kContext);
  set.sample_shape = Shape{context};
  set.dtype = DType::kI32;
  set.label_kind = data::Labels::kNext;
  set.num_classes = job.name == "gpt2" ? kWords : kCharacters;
  set.stream.context = set.stream.stride = context;
  set.stream.train_tokens = set.num_train * context + 1;
  set.stream.tokens.resize(static_cast<std::size_t>(set.stream.train_tokens + context + 1));
  for (std::uint16_t& token : set.stream.tokens)
    token = static_cast<std::uint16_t>(random.next_below(static_cast<std::uint32_t>(set.num_classes)));
}

void make_features(const model::ModelInput& input, Philox& random, data::Dataset& set) {
  set.sample_shape = input.sample_shape;
  set.dtype = DType::kF32;
  set.num_classes = input.num_classes;
  set.features.resize(static_cast<std::size_t>(set.num_samples() * set.sample_elems()));
  for (float& v : set.features) v = 2 * random.next_uniform() - 1;
  for (std::int64_t i = 0; i < set.num_samples(); ++i)
    set.labels.push_back(
        static_cast<std::int32_t>(random.next_below(static_cast<std::uint32_t>(input.num_classes))));
}

}  // namespace

std::span<const Workload> workload_table() { return kWorkloads; }

Result<std::vector<const Workload*>> parse_workloads(std::string_view names, std::string_view device) {
  std::vector<const Workload*> found;
  for (const Workload& w : kWorkloads)
    if (names.empty() && (device == "cuda" ? w.cuda_batch : w.batch) > 0) found.push_back(&w);
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto at = std::find_if(std::begin(kWorkloads), std::end(kWorkloads),
                                 [&](const auto& w) { return w.name == name; });
    if (at == std::end(kWorkloads)) {
      std::string known;
      for (const Workload& w : kWorkloads) known += fmt::format("{}{}", known.empty() ? "" : ", ", w.name);
      return error(Code::kInvalid, "[bench] no workload by that name: got '{}', expected some of {}", name,
                   known);
    }
    found.push_back(at);
  }
  return found;
}

std::int64_t batch_of(const Workload& workload, std::string_view device, bool quick) {
  const std::int64_t usual = std::max(workload.batch, workload.cuda_batch);  // where there is one only
  const std::int64_t own = device == "cuda" ? workload.cuda_batch : workload.batch,
                     batch = own > 0 ? own : usual;
  return quick ? std::max<std::int64_t>(2, batch / kQuickShare) : batch;
}

Result<job::Job> make_job(const Workload& workload, std::string_view dtype, std::string_view device,
                          bool quick) {
  job::Job job;
  job.name = workload.name;
  job.data.kind = "synthetic";
  job.data.prefetch = 1;  // PyTorch's side has one batch in all
  for (const char* key : workload.keys) TR_RETURN_IF_ERROR(job::set_job_key(job, key));
  job.train.batch = batch_of(workload, device, quick);
  job.train.device = device;
  job.train.precision = dtype;
  job.train.optimizer.lr = job.train.optimizer.kind == "adamw" ? 1e-4 : 1e-3;
  if (job.train.optimizer.kind == "momentum") job.train.optimizer.options.set("momentum", 0.9);
  return job;
}

Result<std::shared_ptr<const data::Dataset>> make_samples(const job::Job& job) {
  TR_ASSIGN_OR_RETURN(const model::ZooRow* row, model::find_model(job.model.name));
  auto set = std::make_shared<data::Dataset>();
  set->name = job.name;
  set->source = "made up";
  set->num_train = job.train.batch;
  set->num_test = 1;
  Philox random(kSeed);
  if (job.data.kind == "text")
    make_texts(job, random, *set);
  else
    make_features(row->input(), random, *set);
  TR_RETURN_IF_ERROR(data::check_dataset(*set));
  return std::shared_ptr<const data::Dataset>(std::move(set));
}

bool has_bf16_units() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace trireme::measure
