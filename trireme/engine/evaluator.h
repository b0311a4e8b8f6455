// Evaluator: runs a model's evaluation graph over samples, several batches at once. Knows no group: whoever
// shares the work among ranks gives each its run of batches.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trireme/prepare/batch.h"

namespace trireme::engine {

enum class Part : std::uint8_t { kTest, kValidation, kTrain };
std::string_view part_name(Part part);  // "test"
// kInvalid lists the parts.
Result<Part> parse_part(std::string_view name);
// First sample id of a part and how many it has.
struct PartRange {
  std::int64_t first = 0, count = 0;
};
PartRange range_of(const data::Dataset& data, Part part);

// Batches begin <= i < end.
struct BatchRange {
  std::int64_t begin = 0, end = 0;
};
// The batches of one replica of several. Where replicas meet in the graph every one has as many, of which the
// last may lie behind the last sample.
BatchRange batches_of_replica(const graph::Graph& graph, std::int64_t batches, int replica, int replicas);

struct EvaluatorOptions {
  model::ModelInput input;
  std::shared_ptr<const exec::CompiledGraph> graph;  // fetches "loss" and "correct", perhaps "logits"
  std::int64_t batch = 0;                            // of the graph
  exec::Variables* variables = nullptr;
  std::shared_ptr<const data::Dataset> data;
  int slots = 1;                         // batches at once
  exec::DeviceMirror* mirror = nullptr;  // of the variables, where they stay on a GPU
  Device* arena = nullptr;               // where graphs of a GPU work; null: each in memory of its own
  int tile = 0;                          // position along the model axis
  exec::HostOps host_ops = {};           // runs are numbered from 0 in each call of run() and visit()
};

class Evaluator {
 public:
  static Result<std::unique_ptr<Evaluator>> make(runtime::Runtime& rt, EvaluatorOptions options);
  ~Evaluator();

  std::int64_t num_batches(Part part) const;
  // Sums of batch i: results[2 i] = loss, results[2 i + 1] = right ones; batches begin <= i < end. Samples in
  // id order. Nothing is written on a phantom Runtime, nor of empty batches behind the last sample.
  runtime::Task<Status> run(Part part, std::int64_t begin, std::int64_t end, std::span<float> results);

  // The same with all that the graph fetches: called on the loop, batch by batch in any order, with the
  // sample ids (-1: padding) and the Execution that has just run.
  using Visitor = std::function<Status(std::int64_t batch, std::span<const std::int64_t> ids,
                                       const prepare::BatchTensors& fed, const exec::Execution& run)>;
  runtime::Task<Status> visit(Part part, std::int64_t begin, std::int64_t end, Visitor visitor);

 private:
  struct State;
  explicit Evaluator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trireme::engine
