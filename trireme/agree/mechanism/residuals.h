// Residuals: what coded exchanges of a worker leave to the next ones, per bucket: what was not sent, momentum
// that was not, and how many there were. Without a codec there is nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/codec/coding.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::agree {

class Residuals {
 public:
  // Zeros, laid out as the vectors of `like`, which travel as `codings` say. `velocities`: where the coding
  // has momentum.
  Residuals(runtime::Runtime& rt, std::vector<codec::Coding> codings, const std::vector<Tensor>& like,
            bool velocities);
  // kExhausted: there was no memory.
  const Status& status() const { return status_; }

  bool is_on() const;  // some bucket is coded
  bool is_on(std::size_t bucket) const { return codings_[bucket].row != nullptr; }
  const codec::Coding& coding(std::size_t bucket) const { return codings_[bucket]; }
  // The coding of the first bucket that has one. A bucket without travels whole in a message like theirs.
  const codec::Coding& some_coding() const;
  bool keeps() const;  // some bucket has a residual
  // Null where none is kept.
  Tensor residual(std::size_t bucket) const { return residual_[bucket]; }
  Tensor velocity(std::size_t bucket) const { return velocity_[bucket]; }
  // Exchanges so far, over all starts of the job; count() is the number of the one that begins.
  std::int64_t exchanges(std::size_t bucket) const { return at(bucket); }
  std::int64_t count(std::size_t bucket) { return at(bucket)++; }

  // For checkpoints: live memory.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  Status make(runtime::Runtime& rt, const std::vector<Tensor>& like, bool velocities);
  std::int64_t& at(std::size_t bucket) const { return exchanges_.data<std::int64_t>()[bucket]; }

  std::vector<codec::Coding> codings_;  // per bucket
  Status status_;
  std::vector<Tensor> residual_, velocity_;
  Tensor exchanges_;  // i64 [buckets], even where the others are phantom
};

}  // namespace trireme::agree
