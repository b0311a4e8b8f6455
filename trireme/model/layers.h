// Layers: small builders that make parameters and add nodes under a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph/builder.h"
#include "trireme/model/zoo.h"

namespace trireme::model {

struct ConvSpec {
  std::int64_t out = 0;  // channels
  std::int64_t window = 1, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};

struct PoolSpec {
  std::int64_t window = 2, stride = 2, padding = 0;
};

struct BatchNormSpec {
  double eps = 1e-5, momentum = 0.1;  // momentum: weight of the new value, as in PyTorch
  bool zero_scale = false;  // start at scale 0: the residual branch adds nothing (Goyal et al. 2017)
};

struct ExpertsSpec {
  std::int64_t experts = 0, hidden = 0;  // how many MLPs, and the width of their hidden layers
  std::int64_t top = 1;                  // experts of a token: 1 or 2
  double capacity = 1.25;  // slots of an expert, as a multiple of its even share of a sample's tokens
  double balance = 0.01;   // weight of the balance loss
  std::string activation = "relu";
  std::string out_init = {};  // of the second product; empty: like the others
};

// Not thread-safe. Parameters are collected in the order of use. The first failure sticks, here or in the
// graph's builder: later calls return null Values and status() tells.
class LayerBuilder {
 public:
  LayerBuilder(graph::Builder& b, bool training) : b_(b), training_(training) {}

  graph::Builder& graph() { return b_; }
  bool training() const { return training_; }
  const Status& status() const { return status_.ok() ? b_.status() : status_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }
  const std::vector<graph::Value>& penalties() const { return penalties_; }

  // Names of layers built while it lives get this prefix.
  class Scope {
   public:
    Scope(LayerBuilder& l, std::string_view name) : g_(l.b_.graph()) { g_.push_scope(name); }
    ~Scope() { g_.pop_scope(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    graph::Graph& g_;
  };

  // How weights of later layers start (init_table); biases start at zero.
  void set_init(std::string_view init) { init_ = init; }

  // y = x w^T + b, w [out, in]; x is flattened to [n, in].
  graph::Value dense(std::string_view name, graph::Value x, std::int64_t out, bool bias = true);
  // The same along the last dimension: [..., in] -> [..., out].
  graph::Value linear(std::string_view name, graph::Value x, std::int64_t out, bool bias = true);
  graph::Value conv2d(std::string_view name, graph::Value x, std::int64_t out_channels, std::int64_t window,
                      std::int64_t stride, std::int64_t padding);
  graph::Value conv2d(std::string_view name, graph::Value x, const ConvSpec& spec);
  // A filter and a bias per position of the output.
  graph::Value locally_connected(std::string_view name, graph::Value x, const ConvSpec& spec);

  graph::Value max_pool(graph::Value x, const PoolSpec& spec);
  graph::Value avg_pool(graph::Value x, const PoolSpec& spec);
  graph::Value l2_pool(graph::Value x, const PoolSpec& spec);
  graph::Value global_avg_pool(graph::Value x);  // [n, c, h, w] -> [n, c]

  // Training: statistics of this shard; evaluation: the running ones (Statistic).
  graph::Value batch_norm(std::string_view name, graph::Value x, const BatchNormSpec& spec = {});
  graph::Value layer_norm(std::string_view name, graph::Value x, std::int64_t num_axes = 1,
                          double eps = 1e-5);
  // Defaults of Krizhevsky et al. 2012, whose alpha = 1e-4 is not divided by the size.
  graph::Value local_response_norm(graph::Value x, std::int64_t size = 5, double alpha = 5e-4,
                                   double beta = 0.75, double k = 2);
  graph::Value local_contrast_norm(graph::Value x, std::int64_t window = 9);

  // Rows of a table [vocabulary, width] by ids; `tied` gives the same table's product: x [.., width] -> [..,
  // vocabulary].
  graph::Value embedding(std::string_view name, graph::Value ids, std::int64_t vocabulary,
                         std::int64_t width);
  graph::Value tied(std::string_view name, graph::Value x);
  // Adds a trained vector per position to x [n, t, width].
  graph::Value positions(std::string_view name, graph::Value x);
  // Self-attention of x [n, t, width] with one product for queries, keys and values and one for the output,
  // whose weights may have an initialiser of their own.
  graph::Value attention(std::string_view name, graph::Value x, std::int64_t heads, bool causal,
                         std::string_view out_init = {});
  // A mixture of experts: MLPs of which a token of x [n, ..., width] gets one or two, chosen by a gate and
  // weighted by it. Slots are given out sample by sample, in the order of the tokens; a token that finds none
  // left gets zeros. Adds the balance loss as a penalty.
  graph::Value experts(std::string_view name, graph::Value x, const ExpertsSpec& spec);
  // x [n, t, in] -> all states [n, t, hidden], from zero states. Weights as in PyTorch (weight_ih, weight_hh,
  // bias_ih, bias_hh), uniform in 1 / sqrt(hidden).
  graph::Value rnn(std::string_view name, graph::Value x, std::int64_t hidden);
  graph::Value lstm(std::string_view name, graph::Value x, std::int64_t hidden);
  graph::Value gru(std::string_view name, graph::Value x, std::int64_t hidden);

  // relu, tanh, gelu... by name: activation_names().
  graph::Value activation(std::string_view kind, graph::Value x);

  // Identity in evaluation graphs. Every dropout layer of a model has its own stream, numbered in order of
  // building.
  graph::Value dropout(std::string_view name, graph::Value x, double rate);
  graph::Value flatten(graph::Value x);

  // Adds one number per sample, f32[n], to its loss in training.
  void penalty(graph::Value per_sample);
  // The first failure sticks.
  graph::Value fail(Status status);
  // Puts `prefix` before the message of a failure, if there is one.
  void explain(std::string_view prefix);

  // A trained variable under the current scope; null when the initialiser is unknown.
  graph::Value parameter(std::string_view name, const Shape& shape, std::string_view init, Fans fans);

 private:
  friend class Scope;
  // Whether x exists and has at least `rank` dimensions; fails otherwise.
  bool usable(std::string_view layer, graph::Value x, int rank);
  graph::Value zeros(std::string_view name, const Shape& shape);
  graph::Value scalar_input(std::string_view name);
  graph::Value pool(const op::OpDef& def, graph::Value x, const PoolSpec& spec);
  graph::Value recurrent(std::string_view name, const op::OpDef& def, std::int64_t gates, graph::Value x,
                         std::int64_t hidden);
  graph::Value statistic(std::string_view name, const Shape& shape, double initial, double momentum);
  void give_statistics(const std::string& mean, const std::string& var, graph::Value normed, graph::Value x);

  graph::Builder& b_;
  bool training_;
  std::string init_ = "he";
  std::int64_t next_stream_ = 0;
  Status status_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::vector<graph::Value> penalties_;
};

// "relu, leaky_relu, ..."
std::string activation_names();

}  // namespace trireme::model
