#include "trireme/train/prepare.h"

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(Prepare, AModelWithRunningStatisticsIsRefusedBeforeItTrains) {
  Job job;
  job.model.name = "resnet18";
  const Status status = prepare(job, {Shape{1, 28, 28}, 10}, {}).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("'resnet18' has running statistics (bn1/mean...)"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace trireme::train
