#include "tests/train/tiny_jobs.h"

#include <cmath>
#include <limits>

namespace trireme::train::testing {
namespace {

constexpr std::int64_t kSide = 6, kClasses = 4, kContext = 6, kVocabulary = 9;

// Looks random: the fraction of a large sine, in [-1, 1).
float noise(std::int64_t i) {
  const double v = 43758.5453 * std::sin(12.9898 * static_cast<double>(i));
  return static_cast<float>(2 * (v - std::floor(v)) - 1);
}

Json layers(const char* text) { return *parse_json(text, "layers"); }

void use(job::Job& job, const char* kind, double lr) {
  job.train.optimizer.kind = kind;
  job.train.optimizer.lr = lr;
}

}  // namespace

std::shared_ptr<data::Dataset> tiny_pictures(std::int64_t num_train, std::int64_t num_test,
                                             std::int64_t num_validation) {
  auto set = std::make_shared<data::Dataset>();
  set->name = set->source = "tiny pictures";
  set->sample_shape = Shape{1, kSide, kSide};
  set->dtype = DType::kF32;
  set->num_classes = kClasses;
  set->num_train = num_train;
  set->num_test = num_test;
  set->num_validation = num_validation;
  const std::int64_t pixels = kSide * kSide;
  for (std::int64_t row = 0; row < set->num_samples(); ++row) {
    const std::int64_t label = (row * 7 + row / 3) % kClasses;
    set->labels.push_back(static_cast<std::int32_t>(label));
    for (std::int64_t i = 0; i < pixels; ++i)
      set->features.push_back(0.7F * noise(row * pixels + i) + (i / 9 == label ? 0.8F : -0.2F));
  }
  return set;
}

std::shared_ptr<data::Dataset> tiny_text(std::int64_t num_train, std::int64_t num_test) {
  auto set = std::make_shared<data::Dataset>();
  set->name = set->source = "tiny text";
  set->sample_shape = Shape{kContext};
  set->dtype = DType::kI32;
  set->label_kind = data::Labels::kNext;
  set->num_classes = kVocabulary;
  set->num_train = num_train;
  set->num_test = num_test;
  data::TokenStream& s = set->stream;
  s.context = s.stride = kContext;
  s.train_tokens = num_train * kContext + 1;
  const std::int64_t all = s.train_tokens + num_test * kContext + 1;
  for (std::int64_t i = 0; i < all; ++i) {
    const std::int64_t next = (i * i + i / 5) % kVocabulary;
    s.tokens.push_back(static_cast<std::uint16_t>(next));
  }
  return set;
}

job::Job tiny_job() {
  job::Job job;
  job.name = "tiny";
  job.model.layers = layers(R"([{"kind": "dense", "out": 8, "activation": "relu"}, {"kind": "classifier"}])");
  job.train.steps = 10;
  job.train.batch = 12;
  job.train.logical_shards = 4;
  job.train.eval_steps = 4;
  job.train.checkpoint_steps = 3;
  job.train.optimizer.lr = 0.05;
  job.parallel.bucket_bytes = 512;  // several buckets
  return job;
}

job::Job by_class_job(const std::string& rule, int workers) {
  job::Job job = tiny_job();
  job.data.partition = "by-class";
  job.train.logical_shards = 0;
  job.train.shard_threads = 1;
  job.train.batch = 32;
  job.train.steps = 150;
  job.train.epochs = 0;
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.lr = 0.1;
  job.train.optimizer.schedule = "constant";
  job.train.optimizer.warmup = 0;
  job.parallel.workers = workers;
  job.parallel.agreement = rule;
  return job;
}

std::vector<TinyCase> tiny_cases() {
  std::vector<TinyCase> cases;
  // 4 batches an epoch, the last one of 4 samples: two of its shards are empty or short.
  const auto pictures = tiny_pictures(40, 10, 8);
  const auto add = [&](const char* name, auto change) {
    TinyCase c{name, tiny_job(), pictures};
    change(c);
    cases.push_back(std::move(c));
  };
  add("sgd", [](TinyCase& c) { use(c.job, "sgd", 0.2); });
  add("momentum", [](TinyCase& c) { c.job.train.optimizer.options.set("weight_decay", 0.2); });
  add("nesterov", [](TinyCase& c) { use(c.job, "nesterov", 0.05); });
  add("adagrad", [](TinyCase& c) { use(c.job, "adagrad", 0.05); });
  add("rmsprop", [](TinyCase& c) {
    use(c.job, "rmsprop", 0.01);
    c.job.train.optimizer.options.set("centered", true);
    c.job.train.optimizer.options.set("momentum", 0.5);
  });
  add("adam", [](TinyCase& c) { use(c.job, "adam", 0.01); });
  add("amsgrad", [](TinyCase& c) {
    use(c.job, "adam", 0.01);
    c.job.train.optimizer.options.set("amsgrad", true);
  });
  add("adamw", [](TinyCase& c) {
    use(c.job, "adamw", 0.01);
    c.job.train.optimizer.options.set("weight_decay", 0.5);
  });
  add("lars", [](TinyCase& c) { use(c.job, "lars", 1.0); });
  add("normed", [](TinyCase& c) {
    c.job.model.layers = layers(
        R"([{"kind": "conv2d", "out": 3, "window": 3}, {"kind": "batch_norm", "activation": "relu"},
            {"kind": "conv2d", "out": 4, "window": 3}, {"kind": "batch_norm", "activation": "relu"},
            {"kind": "classifier"}])");
    c.job.train.optimizer.options.set("weight_decay", 0.2);  // not of biases and scales
  });
  add("dropout", [](TinyCase& c) {
    c.job.model.layers =
        layers(R"([{"kind": "dense", "out": 16, "activation": "relu"}, {"kind": "dropout", "rate": 0.4},
                   {"kind": "classifier"}])");
  });
  add("factors", [](TinyCase& c) {
    c.job.model.layers =
        layers(R"([{"kind": "dense", "out": 64, "activation": "relu"}, {"kind": "classifier"}])");
    c.job.parallel.codec = "factors";
  });
  add("augmented", [&](TinyCase& c) {
    auto set = std::make_shared<data::Dataset>(*pictures);
    set->augment = {.shift = 1, .crop = 0.8, .flip = true};
    c.data = set;
  });
  const auto text = [](TinyCase& c) {
    c.job.model.layers = Json::array();
    c.job.model.name = "char-lstm";
    c.job.model.options = Json{{"width", 6}, {"layers", 1}, {"dropout", 0.2}};
    c.job.data.kind = "text";
    c.job.data.path = "tiny.txt";
    c.data = tiny_text(40, 9);
    use(c.job, "adam", 0.02);
  };
  add("text", text);
  add("bftext", [&](TinyCase& c) {
    text(c);
    c.job.train.precision = "bf16";
  });
  add("experts", [&](TinyCase& c) {
    text(c);
    c.job.model = tiny_job().model;
    c.job.model.layers = layers(R"([{"kind": "embedding", "width": 8},
                   {"kind": "residual", "layers": [{"kind": "experts", "experts": 3, "hidden": 6, "top": 2}]},
                   {"kind": "classifier"}])");
  });
  add("reconstruct", [](TinyCase& c) {
    c.job.model.layers = Json::array();
    c.job.model.name = "autoencoder";
    c.job.model.options = Json{{"hidden", 5}};
    use(c.job, "adam", 0.01);
  });
  add("clipped", [](TinyCase& c) { c.job.train.optimizer.clip_norm = 0.3; });
  add("skipping", [&](TinyCase& c) {
    auto set = std::make_shared<data::Dataset>(*pictures);
    set->features[36 * 17 + 5] = std::numeric_limits<float>::infinity();  // once an epoch
    c.data = set;
    c.job.train.nan = "skip";
    use(c.job, "adam", 0.01);  // counts the steps that it made
  });
  add("bf", [](TinyCase& c) { c.job.train.precision = "bf16"; });
  add("half", [](TinyCase& c) { c.job.train.precision = "f16"; });
  add("growing", [](TinyCase& c) {
    c.job.train.steps = 16;
    c.job.train.optimizer.schedule = "step";
    c.job.train.optimizer.milestones = {0.25, 0.6};
    c.job.train.optimizer.factor = 0.5;
    c.job.train.optimizer.max_batch_multiplier = 4;
  });
  add("corrected", [](TinyCase& c) {
    c.job.train.optimizer.options.set("rate_inside", true);
    c.job.train.optimizer.correct_momentum = true;
    c.job.train.optimizer.warmup = 0.4;
  });
  add("byclass", [](TinyCase& c) { c.job.data.partition = "by-class"; });
  add("target", [](TinyCase& c) {
    c.job.train.steps = 60;
    c.job.train.eval_steps = 2;
    c.job.train.target_accuracy = 0.75;
  });
  add("frozen", [](TinyCase& c) { c.job.model.freeze = {"dense1"}; });
  return cases;
}

}  // namespace trireme::train::testing
