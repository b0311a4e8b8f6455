// Texts that go on: tokens, draws, and the window that slides.
#include "trireme/apply/generate.h"

#include <algorithm>
#include <cmath>

#include "tests/train/trained_runs.h"
#include "trireme/prepare/batch.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;

data::Dataset letters() {
  data::Dataset set;
  set.class_names = {"a", "b", "é", "€"};
  set.num_classes = 4;
  return set;
}

TEST(Tokenise, CharactersOfSeveralBytesAreOneToken) {
  const auto tokens = apply::tokenise(letters(), "aéb€");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(*tokens, (std::vector<std::int32_t>{0, 2, 1, 3}));
}

TEST(Tokenise, EveryUnknownCharacterIsNamedWithItsOffset) {
  const auto tokens = apply::tokenise(letters(), "aßbx");
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.status().code(), Code::kInvalid);
  EXPECT_NE(tokens.status().message().find("'ß' at offset 1, 'x' at offset 4"), std::string::npos)
      << tokens.status().message();
}

TEST(PickToken, ZeroTemperatureTakesTheFirstOfTheLargest) {
  apply::GenerateOptions options;
  options.temperature = 0;
  const std::vector<float> logits{1, 3, 3, 2};
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(apply::pick_token(logits, options, i), 1);
}

TEST(PickToken, DrawsFollowTheProbabilities) {
  apply::GenerateOptions options;
  options.temperature = 2;
  const std::vector<float> logits{0, 2 * std::log(3.0F), -1000};  // 1 : 3 : 0 at temperature 2
  std::vector<int> counts(3);
  for (std::int64_t i = 0; i < 4000; ++i)
    ++counts[static_cast<std::size_t>(apply::pick_token(logits, options, i))];
  EXPECT_NEAR(counts[0], 1000, 140);  // five standard deviations
  EXPECT_EQ(counts[2], 0);
  options.top_k = 1;
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(apply::pick_token(logits, options, i), 1);
}

TEST(PickToken, ADrawIsAFunctionOfSeedAndPosition) {
  apply::GenerateOptions options, other;
  other.seed = 2;
  const std::vector<float> logits(50, 0.0F);
  int differ = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(apply::pick_token(logits, options, i), apply::pick_token(logits, options, i));
    differ += apply::pick_token(logits, options, i) != apply::pick_token(logits, other, i) ? 1 : 0;
  }
  EXPECT_GT(differ, 30);
}

TEST(Generate, NumbersThatMakeNoSenseAreRefused) {
  const auto refused = [](apply::GenerateOptions options) {
    return apply::check_options(options).code() == Code::kInvalid;
  };
  apply::GenerateOptions options;
  EXPECT_TRUE(apply::check_options(options).ok());
  options.tokens = 0;
  EXPECT_TRUE(refused(options));
  options = {};
  options.temperature = -0.1;
  EXPECT_TRUE(refused(options));
  options = {};
  options.top_k = -1;
  EXPECT_TRUE(refused(options));
}

class GenerateText : public testing::TrainedRuns {
 protected:
  std::string go_on(const apply::LoadedModel& model, apply::GenerateOptions options) {
    std::string shown;
    Result<apply::Generated> out = Status(Code::kInternal, "not run");
    run([&](Runtime& rt) { return into(rt, model, options, shown, out); });
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    EXPECT_EQ(out.ok() ? out->text : "", shown) << "what is shown while it runs is the text";
    return shown;
  }
  static Task<void> into(Runtime& rt, const apply::LoadedModel& model, apply::GenerateOptions options,
                         std::string& shown, Result<apply::Generated>& out) {
    std::function<void(std::string_view)> emit = [&](std::string_view text) { shown += text; };
    out = co_await apply::generate(rt, model, std::move(options), std::move(emit));
  }

  // The most likely next token after tokens[0, n) when the window's rest holds other tokens than zeros.
  static Task<void> next_with_rest(Runtime& rt, const apply::LoadedModel& model, const std::string& window,
                                   std::size_t n, std::int32_t& out) {
    std::vector<std::string> outputs{"logits"};
    const auto compiled = co_await apply::compile_forward(rt, model, 1, std::move(outputs));
    auto batch = prepare::allocate_batch(cpu_device(), model.input, 1);
    exec::ExecutionOptions with;
    with.variables = model.variables.get();
    auto execution = exec::make_execution(rt, *compiled, std::move(with));
    EXPECT_TRUE(prepare::feed_batch(**execution, (*compiled)->graph(), model.input, *batch).ok());
    const auto tokens = apply::tokenise(*model.data, window);
    std::copy(tokens->begin(), tokens->end(), batch->x.values<std::int32_t>().begin());
    const Status status = co_await (*execution)->run();
    EXPECT_TRUE(status.ok());
    const auto logits = (*execution)->fetch("logits")->values<float>();
    const auto vocabulary = static_cast<std::size_t>(model.input.num_classes);
    const auto row = logits.subspan((n - 1) * vocabulary, vocabulary);
    out = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }
};

TEST_F(GenerateText, TheTextIsOfTheSeedAndShortPromptsSeeNoPadding) {
  write("text.txt", testing::small_text());
  for (const char* name : {"char-lstm", "char-gpt"}) {
    job::Job job = testing::text_job(path("text.txt"));
    job.model.name = name;
    job.model.options = {{"layers", 1}, {"width", 12}, {"dropout", 0}};
    if (job.model.name == "char-gpt") job.model.options["heads"] = 2;
    train(name, job);
    const apply::LoadedModel model = load(name);
    apply::GenerateOptions options;
    options.prompt = "ab";
    options.tokens = 30;
    const std::string text = go_on(model, options);
    EXPECT_EQ(text.size(), 30U);
    EXPECT_EQ(text, go_on(model, options));
    options.seed = 9;
    EXPECT_NE(text, go_on(model, options));
    options.temperature = 0;
    options.tokens = 1;
    for (const std::size_t n : {1U, 3U, 8U}) {
      const std::string window = "ab ba ab";
      options.prompt = window.substr(0, n);
      std::int32_t expected = -1;
      run([&](Runtime& rt) { return next_with_rest(rt, model, window, n, expected); });
      EXPECT_EQ(go_on(model, options), model.data->class_names[static_cast<std::size_t>(expected)])
          << name << " " << n;
    }
  }
}

TEST_F(GenerateText, OfALongPromptTheLastWindowCounts) {
  write("text.txt", testing::small_text());
  train("run", testing::text_job(path("text.txt")));
  const apply::LoadedModel model = load("run");
  apply::GenerateOptions long_one, short_one;
  short_one.prompt = "abab\nab ";  // the context is 8
  long_one.prompt = "ba ba\nab" + short_one.prompt;
  short_one.tokens = long_one.tokens = 20;
  EXPECT_EQ(go_on(model, short_one), go_on(model, long_one));
}

}  // namespace
}  // namespace trireme::train
